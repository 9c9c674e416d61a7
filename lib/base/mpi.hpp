#pragma once

#include "base/handle.hpp"

#include <mpi.h>
#include <string>

namespace gpt {

/// MPI's own text for an error code.
std::string mpi_error_text(int rc);

/// Throws Error(rank_failed) with MPI's own text unless `rc` is MPI_SUCCESS.
void check_mpi(int rc);

struct CommTraits {
  using type = MPI_Comm;
  static type null() { return MPI_COMM_NULL; }  // a function: not a constant expression in Open MPI
  static void release(type comm) { MPI_Comm_free(&comm); }
};
using CommHandle = Handle<CommTraits>;

struct InfoTraits {
  using type = MPI_Info;
  static type null() { return MPI_INFO_NULL; }
  static void release(type info) { MPI_Info_free(&info); }
};
using InfoHandle = Handle<InfoTraits>;

}  // namespace gpt
