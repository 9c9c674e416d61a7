#include "train/append_file.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/notice.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

bool ends_inside_a_line(const FileHandle& file) {
  const off_t end = lseek(file.get(), 0, SEEK_END);
  char last = '\n';
  return end > 0 && pread(file.get(), &last, 1, end - 1) == 1 && last != '\n';
}

}  // namespace

AppendFile::AppendFile(std::string path, bool truncate) : path_(std::move(path)) {
  struct stat status {};
  validate(stat(path_.c_str(), &status) != 0 || S_ISREG(status.st_mode),
           "{} is not a regular file: move it away", path_);
  file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (truncate ? O_TRUNC : 0), 0666));
  const int failure = errno;
  validate(static_cast<bool>(file_), ExitCode::failed, "cannot write {}: {}", path_,
           std::generic_category().message(failure));
  torn_ = ends_inside_a_line(file_);
}

void AppendFile::append(const std::string& lines) {
  const std::string text = (torn_ ? "\n" : "") + lines;
  const FileFault fault = file_point("log.write");
  int failure = fault.cuts ? ENOSPC : fault.error;
  // Of a disk that becomes full a write takes what still fits, and only the next one fails.
  const size_t refused = failure == 0 ? 0 : text.size() - (fault.cuts ? text.size() / 2 : 0);
  std::string_view rest = text;
  while (rest.size() > refused) {
    const ssize_t written = write(file_.get(), rest.data(), rest.size() - refused);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      failure = errno;
      break;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  if (rest.size() < text.size()) torn_ = text[text.size() - rest.size() - 1] != '\n';
  if (rest.empty() == losing_) {
    losing_ = !rest.empty();
    notice(fmt::format("warning: {} {}", path_,
                       losing_ ? fmt::format("takes no more lines ({}): they are lost",
                                             std::generic_category().message(failure))
                               : "takes lines again; those in between are lost"));
  }
}

}  // namespace gpt
