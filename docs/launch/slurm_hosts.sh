#!/usr/bin/env bash
# One run over several hosts, whose processes JAX finds by itself. Where one is lost, all end, and the job asks for another turn.
#
#   sbatch docs/launch/slurm_hosts.sh wiki --preset text8-10x1500 --data.dir DIR --workdir DIR
#
# DIR of --workdir need only be seen by the first host, which may be another one at the next turn; that of --data.dir by all.
#
#SBATCH --job-name=lrpt-hosts
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-task=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@180
set -euo pipefail

experiment=${1:?the name of an experiment, as in wiki}
shift
turns=${LRPT_TURNS:-100}

status=0
srun --kill-on-bad-exit=1 "${PYTHON:-python}" -m "experiments.$experiment" --distributed.auto "$@" || status=$?

# 2: the command line is wrong, and would be again.
if ((status != 0 && status != 2 && ${SLURM_RESTART_COUNT:-0} < turns)); then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
