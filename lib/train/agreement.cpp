#include "train/agreement.hpp"

#include "base/hash.hpp"
#include "base/mpi.hpp"
#include "comm/hang.hpp"
#include "h5/h5.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace gpt {
namespace {

std::string executable_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  if (!file) return "unknown";
  StreamHash hash;
  std::vector<char> block(1 << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
    hash.update(block.data(), static_cast<size_t>(file.gcount()));
  return to_hex(hash.digest());
}

std::string mpi_version() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length));
  text.resize(static_cast<size_t>(length));
  return text.substr(0, text.find(','));
}

}  // namespace

void compare_ranks(const World& world, const Facts& facts) {
  const std::vector<std::string> all = world.gather(nlohmann::json(facts).dump());
  if (std::ranges::all_of(all, [&](const std::string& text) { return text == all.front(); })) return;

  std::map<std::string, std::map<std::string, std::vector<int>>> ranks_by_value;  // field → value → ranks
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (const auto& [field, value] : nlohmann::json::parse(all[rank]).get<Facts>())
      ranks_by_value[field][value].push_back(static_cast<int>(rank));
  std::string message = "ranks do not agree, and must:";
  for (const auto& [field, values] : ranks_by_value) {
    if (values.size() == 1 && values.begin()->second.size() == all.size()) continue;
    message += fmt::format("\n  {}:", field);
    for (const auto& [value, ranks] : values)
      message += fmt::format(" {} on {};", value.empty() ? "(empty)" : value, list_ranks(ranks));
    message.back() = ' ';
  }
  throw SharedError(message, ExitCode::usage);
}

Facts build_facts() {
  return {{"executable", executable_hash()}, {"HDF5", hdf5_loaded_version()}, {"MPI", mpi_version()}};
}

}  // namespace gpt
