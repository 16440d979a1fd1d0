import os


def main():
    # region: setup
    a = 1
    # region: typo
    if a:
        b = 2
    # endregion: typo
    # endregion: setup
    # region: open
    return b
