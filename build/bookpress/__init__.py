"""The press: Markdown chapters in, a PDF, an EPUB and a web edition out.

Pipeline, one direction, frozen data between stages (see model.py for the vocabulary):

    config → load → expand → parse → link → number → { pdf, epub, web } → check → publish

Only the last three stages write, and only into the output folder and the cache.
"""

__version__ = "0.1.0"
