#include "base/mpi.hpp"

#include "base/error.hpp"

#include <array>

namespace gpt {

std::string mpi_error_text(int rc) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(rc, text.data(), &length);
  return {text.data(), static_cast<size_t>(length)};
}

void check_mpi(int rc) {
  if (rc != MPI_SUCCESS) throw Error(fmt::format("MPI: {}", mpi_error_text(rc)), ExitCode::rank_failed);
}

}  // namespace gpt
