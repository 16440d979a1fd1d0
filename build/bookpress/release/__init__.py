"""The release: a version becomes a commit, a tag and files; the files become public.

Stands after check, and is the only stage that touches git or a network. In order:

    versions, changelog → cut (make release) → artefacts (with card, provenance) → plan → publish → verifier

Everything before `publish` is local and repeatable: the same commit gives the same files. Every step may be
run again after an interruption; what is done already is found and left alone.
"""
