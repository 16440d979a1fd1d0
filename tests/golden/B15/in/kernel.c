/* region: body */
int x;
/* endregion: body */
