#include "base/contracts.hpp"

#include <cstdio>
#include <cstdlib>

namespace gpt {

void contract_broken(const char* kind, const std::source_location& where) {
  std::fprintf(stderr, "gpt_mpi: %s broken in %s, %s:%u\n", kind, where.function_name(), where.file_name(),
               static_cast<unsigned>(where.line()));
  std::abort();
}

}  // namespace gpt
