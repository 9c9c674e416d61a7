#include "train/agreement.hpp"

#include "base/hash.hpp"
#include "base/mpi.hpp"
#include "h5/h5.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <unistd.h>
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

/// Whether the variable says how messages travel or how numbers are added, and can mean no single rank. What
/// a launcher gives each rank (its number, its cores, its devices) is none of them.
bool is_shared_setting(std::string_view name) {
  constexpr std::string_view beginnings[] = {"NCCL_",
                                             "UCX_",
                                             "FI_",
                                             "HDF5_",
                                             "CUDNN_",
                                             "DNNL_",
                                             "ONEDNN_",
                                             "OMPI_MCA_pml",
                                             "OMPI_MCA_btl",
                                             "OMPI_MCA_mtl",
                                             "OMPI_MCA_coll",
                                             "OMPI_MCA_io",
                                             "OMP_DYNAMIC",
                                             "OMP_THREAD_LIMIT",
                                             "OMP_WAIT_POLICY"};
  return std::ranges::any_of(beginnings, [&](std::string_view one) { return name.starts_with(one); });
}

}  // namespace

std::vector<std::string> environment_differences(const World& world) {
  std::string mine;  // entries "NAME=value", each ended by a zero
  for (const char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (is_shared_setting(text.substr(0, text.find('=')))) mine += std::string(text) + '\0';
  }
  const std::vector<std::string> all = world.gather(mine);
  const std::vector<std::string> hosts = world.gather(world.host());

  std::vector<std::map<std::string, std::string>> by_rank;
  std::set<std::string> names;
  for (const std::string& entries : all) {
    std::map<std::string, std::string>& of_rank = by_rank.emplace_back();
    for (size_t at = 0; at < entries.size(); at = entries.find('\0', at) + 1) {
      const std::string entry(entries.c_str() + at);
      of_rank[entry.substr(0, entry.find('='))] = entry.substr(entry.find('=') + 1);
    }
    for (const auto& [name, value] : of_rank) names.insert(name);
  }
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    RanksByValue values;
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const auto found = by_rank[rank].find(name);
      values[found == by_rank[rank].end() ? "not set" : found->second].push_back(static_cast<int>(rank));
    }
    if (values.size() > 1)
      differences.push_back(fmt::format("{} is not the same everywhere: {}", name, describe(values, hosts)));
  }
  return differences;
}

Facts option_facts(const std::string& text) {
  Facts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    if (equals != std::string::npos)
      facts.emplace_back("--" + line.substr(0, equals), line.substr(equals + 3));
  }
  return facts;
}

Facts build_facts() {
  return {{"executable", executable_hash()}, {"HDF5", hdf5_loaded_version()}, {"MPI", mpi_version()}};
}

}  // namespace gpt
