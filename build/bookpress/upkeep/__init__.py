"""Upkeep: what keeps a published book true. Beside the pipeline, run on a schedule or by a reader.

    stale      facts and chapters that nobody has verified for longer than their shelf life
    outlinks   links to other sites that lead nowhere by now
    records    a reader's measurement, checked, made anonymous and filed under data/records/
"""
