#!/usr/bin/env bash
# Builds the example's library and the four programs that use it, runs them, and compares what they print.
#   run.sh PYTHON FOLDER
set -euo pipefail

python=$1 folder=$(mkdir -p "$2" && cd "$2" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
library=$folder/pricing

echo "==> the library, in $library"
"$python" -m polyloom build "$here/kernels.py" "$here/model.py" -o "$library" \
  --kernel scale_add,smooth,rotate,gather --function call_price \
  --fuse layer --shape x=8x24 scale=24 shift=24 weight=16x24 bias=16

echo "==> C, C++, Rust and Python"
"${CC:-cc}" -std=c99 -Wall -Wextra -Werror -O2 -I"$library" "$here/main.c" "$library/libpricing.a" -lm -o "$folder/main_c"
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror -O2 -I"$library" "$here/main.cpp" -L"$library" -lpricing \
  -Wl,-rpath,"$library" -o "$folder/main_cpp"
AOT_LIBRARY=$library CARGO_TARGET_DIR=$folder/rust cargo build --quiet --offline --manifest-path "$here/rust/Cargo.toml"

"$folder/main_c" >"$folder/c.txt"
"$folder/main_cpp" >"$folder/cpp.txt"
"$folder/rust/debug/aot-example" >"$folder/rust.txt"
"$python" "$here/main.py" "$library" >"$folder/python.txt"
for other in cpp rust python; do
  cmp "$folder/c.txt" "$folder/$other.txt"
done
cut -c1-72 "$folder/c.txt"
echo "==> all four print the same bits"
