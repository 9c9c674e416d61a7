#include "base/file_fault.hpp"

#include "base/error.hpp"

#include <system_error>

namespace gpt {

void check_file(const FileFault& fault, ExitCode code, std::string_view doing) {
  validate(fault.error == 0, code, "{}: {}", doing, std::generic_category().message(fault.error));
}

std::vector<std::byte> damaged(std::span<const std::byte> bytes, const FileFault& fault) {
  std::vector<std::byte> result(bytes.begin(), bytes.end());
  if (fault.flips && !result.empty()) {
    const uint64_t bit = fault.place % (8 * result.size());
    result[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  if (fault.cuts) result.resize(result.size() / 2);
  return result;
}

}  // namespace gpt
