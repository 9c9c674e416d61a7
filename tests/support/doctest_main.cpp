#define DOCTEST_CONFIG_IMPLEMENT
#include "base/fault.hpp"

#include <cstdio>
#include <doctest/doctest.h>
#include <mpi.h>

// One main for every test program: with one process it is an ordinary doctest program, under mpirun each rank
// runs all cases and the exit code of any failing rank fails the job. Only the root prints successes.
int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  gpt::configure_faults(rank);
  doctest::Context context(argc, argv);
  if (rank != 0) context.setOption("minimal", true);
  int failed = context.run();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
