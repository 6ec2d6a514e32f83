"""PTX written by hand, where no compiler has looked for barriers that not all threads of a block reach."""

from __future__ import annotations

DIVERGENT = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry reversed(.param .u64 x) {
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b32 tile[64];

    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    st.shared.u32 tile[%r1], %r2;
    setp.ge.u32 %p1, %r1, 48;
    @%p1 bra STORE;
    bar.sync 0; // BUG
    sub.u32 %r3, 47, %r1;
    ld.shared.u32 %r2, tile[%r3];
STORE:
    st.global.u32 [%rd1], %r2;
    ret;
}
"""

# All threads reach the barrier; the last ones skip what is behind it.
TWIN = DIVERGENT.replace("    setp.ge", "    bar.sync 0;\n    setp.ge").replace("    bar.sync 0; // BUG\n", "")


def bug_line(text: str) -> int:
    """The line of the bug, from 1."""
    return next(at for at, line in enumerate(text.splitlines(), 1) if line.endswith("// BUG"))
