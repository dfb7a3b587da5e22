#!/usr/bin/env bash
# The same run on every host of a Cloud TPU slice, whose processes JAX finds by itself.
#
#   TPU=my-slice ZONE=us-central2-b docs/launch/tpu_pod.sh wiki --preset text8-10x1500 --data.dir DIR --workdir DIR
#
# A clone of this repository with its environment in .venv (pip install -e . 'jax[tpu]') must lie in ~/lrpt on every host. A preempted
# slice that comes back is given the same command, and the run goes on from its checkpoint, which must lie on a disk that outlives it.
set -euo pipefail

: "${TPU:?the name of the slice}" "${ZONE:?its zone}" "${1:?the name of an experiment, as in wiki}"
experiment=$1
shift
printf -v flags ' %q' "$@"
# The command outlives the connection; what it says is in ~/lrpt.log of each host.
gcloud compute tpus tpu-vm ssh "$TPU" --zone "$ZONE" --worker=all --command "
    cd ~/lrpt
    nohup .venv/bin/python -m experiments.$experiment --distributed.auto$flags \
        >> ~/lrpt.log 2>&1 < /dev/null &
"
