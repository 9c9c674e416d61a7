#include "base/mpi.hpp"

#include "base/error.hpp"

#include <array>

namespace gpt {

void check_mpi(int rc) {
  if (rc == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(rc, text.data(), &length);
  throw Error(fmt::format("MPI: {}", std::string_view(text.data(), static_cast<size_t>(length))),
              ExitCode::rank_failed);
}

}  // namespace gpt
