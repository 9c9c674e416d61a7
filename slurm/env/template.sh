# shellcheck shell=bash disable=SC2034  # the job scripts read these
# What a site needs. Copy this file to slurm/env/MYSITE.sh, keep what applies, and submit with
#   SITE=MYSITE sbatch slurm/train_4x8.sh
# The job scripts read it before they start anything; what it exports reaches all ranks.

# The modules that gpt_mpi was built with.
# module purge
# module load gcc/12 openmpi/4.1 hdf5/1.14-mpi onednn

# How srun tells ranks of each other: 'srun --mpi=list' shows what there is. Open MPI: pmix (or pmix_v4, …). MPICH and
# Intel MPI: pmi2, Cray MPICH: cray_shasta.
# MPI_TYPE=pmix

# More options of srun.
# SRUN_OPTIONS=(--cpu-bind=cores)

# Between srun and the program: a container, numactl.
# WRAPPER=(apptainer exec --nv "$HOME/gpt_mpi.sif")

# Networks, where the libraries choose the wrong one; names as 'ip link' shows them on a compute node.
# export OMPI_MCA_btl_tcp_if_include=ib0
# export UCX_NET_DEVICES=mlx5_0:1
# export NCCL_SOCKET_IFNAME=ib0

# Lustre and NFS without locks.
# export HDF5_USE_FILE_LOCKING=FALSE
