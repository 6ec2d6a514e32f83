//! Tests of the passes on small functions built by hand: what goes in, what comes out.

mod pipeline;
