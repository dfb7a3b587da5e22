#!/usr/bin/env bash
# One run over several hosts, whose processes JAX finds by itself; all are started again where one is lost.
#
#   sbatch docs/launch/slurm_hosts.sh wiki --preset text8-10x1500 --data.dir DIR --workdir DIR
#
# DIR of --workdir need only be seen by the first host; that of --data.dir by all.
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
# --kill-on-bad-exit=0: Slurm would end all tasks with the first that dies, and leave nothing to the supervisors.
srun --kill-on-bad-exit=0 \
    "${PYTHON:-python}" -m experiments.supervise -- "${PYTHON:-python}" -m "experiments.$experiment" --distributed.auto "$@"
