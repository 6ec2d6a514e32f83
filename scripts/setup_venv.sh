#!/usr/bin/env bash
# setup_venv.sh VENV REQUIREMENTS: makes the virtual environment if it is not there and installs the requirements.
set -euo pipefail

venv=$1
requirements=$2
python=${PYTHON:-python3}

fail() { echo "setup: $1" >&2; exit 1; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
  fail "needs Python 3.10 or newer as '$python' (set PYTHON to another interpreter)"
if [ ! -x "$venv/bin/python" ]; then
  echo "==> making $venv"
  "$python" -m venv "$venv" 2>/dev/null || fail "cannot make a virtual environment: install python3-venv and run this again"
fi
echo "==> installing $requirements into $venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" ||
  fail "pip could not install $requirements (see above)"
