#include "base/error.hpp"
#include "h5/internal.hpp"

#include <cerrno>
#include <cstdlib>

namespace gpt {
namespace {

herr_t keep_first(unsigned position, const H5E_error2_t* entry, void* text) {
  if (position == 0 && entry->desc != nullptr) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

/// The text between `before` and `after`; empty if it is not there.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t found = text.find(before);
  if (found == std::string::npos) return {};
  const size_t begin = found + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

std::string plain(const std::string& text) {
  const std::string system = between(text, "error message = '", "'");
  if (text.find("lock file") != std::string::npos)
    return fmt::format(
        "it cannot be locked ({}): another program holds it, or the file system has no locks. "
        "HDF5_USE_FILE_LOCKING=FALSE in the environment opens it without a lock",
        system.empty() ? text : system);
  if (!system.empty()) return system;
  if (text.find("file signature not found") != std::string::npos) return "it is not an HDF5 file";
  if (text.find("truncated file") != std::string::npos)
    return fmt::format("it is truncated: {} of {} bytes are there", between(text, ": eof = ", ","),
                       between(text, "stored_eof = ", ","));
  return text.empty() ? "HDF5 gives no reason" : text;
}

/// What HDF5's error stack says at its most specific end.
std::string most_specific() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text;
}

/// The system's error number in such a text; 0 if it tells of none.
int system_error(const std::string& text) { return std::atoi(between(text, "errno = ", ",").c_str()); }

std::string version(unsigned major, unsigned minor, unsigned release) {
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace

void silence_h5() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

int64_t check_h5(int64_t result, const std::string& what, ExitCode code) {
  if (result >= 0) return result;
  const std::string text = most_specific();
  const int number = system_error(text);
  throw Error(fmt::format("{}: {}", what, plain(text)),
              number != 0 && number != EIO ? ExitCode::failed : code);
}

std::string hdf5_compiled_version() { return version(H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE); }

std::string hdf5_loaded_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return version(major, minor, release);
}

}  // namespace gpt
