use std::io;
// ANCHOR: here
fn main() {}
// ANCHOR_END: here
