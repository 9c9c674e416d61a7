#include "bench/output_file.hpp"

#include "base/error.hpp"
#include "data/file_io.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace fs = std::filesystem;
namespace {

/// 0, or what keeps the file from being written.
int writing_fault(const std::string& path) {
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0;
  // To open and close a pipe would end the program that reads it.
  if (is_there && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  const FileHandle file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return errno;
  std::error_code ignored;
  if (!is_there) fs::remove(fs::canonical(path, ignored), ignored);  // not a link that led there
  return 0;
}

}  // namespace

void check_output_file(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  const int fault = writing_fault(path);
  validate(fault == 0, "--{} {}: cannot be written: {}: name another file, in a folder that exists", option,
           path, std::generic_category().message(fault));
}

void write_json(const std::string& path, const nlohmann::json& json) {
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  validate(!file.fail(), ExitCode::failed, "cannot write {}: is its folder still there, and is there room?",
           path);
}

}  // namespace gpt
