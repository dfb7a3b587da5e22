#!/usr/bin/env bash
# One run over all hosts of a Cloud TPU slice. JAX detects its processes.
#
#   TPU=my-slice ZONE=us-central2-b docs/launch/tpu_pod.sh wiki --preset text8-10x1500 --data.dir DIR --workdir DIR
#
# A clone of this repository with its environment in .venv (pip install -e . 'jax[tpu]') must lie in ~/lrpt on every host. After
# preemption, start the same command again: the run goes on from its checkpoint, which must lie on a disk that outlives the slice.
#
# Environment variables:
#   TPU    name of the slice (required)
#   ZONE   its zone (required)
set -euo pipefail

: "${TPU:?the name of the slice}" "${ZONE:?its zone}" "${1:?the name of an experiment, as in wiki}"
experiment=$1
shift
printf -v flags ' %q' "$@"
# The command goes on if the connection is lost. Its output is in ~/lrpt.log of each host.
gcloud compute tpus tpu-vm ssh "$TPU" --zone "$ZONE" --worker=all --command "
    cd ~/lrpt
    nohup .venv/bin/python -m experiments.$experiment --distributed.auto$flags \
        >> ~/lrpt.log 2>&1 < /dev/null &
"
