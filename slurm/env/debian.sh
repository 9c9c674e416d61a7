# shellcheck shell=bash disable=SC2034  # the job scripts read these
# Debian 12 and its packages: slurm-wlm 22.05, Open MPI 4.1, PMIx 4.2.

MPI_TYPE=pmix
# Debian's UCX looks for InfiniBand and says so where there is none; between nodes with Ethernet TCP is what there is.
if [ ! -e /sys/class/infiniband ]; then
  export OMPI_MCA_pml=${OMPI_MCA_pml:-ob1} OMPI_MCA_btl=${OMPI_MCA_btl:-self,vader,tcp}
fi
# Containers and hardened kernels forbid the system call behind single-copy messages, and every message then complains.
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
