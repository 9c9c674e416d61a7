#include "train/proc_files.hpp"

#include <fstream>
#include <sstream>

namespace gpt {

int64_t bytes_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t kibibytes = 0;
    if (words >> first >> kibibytes && first == name) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace gpt
