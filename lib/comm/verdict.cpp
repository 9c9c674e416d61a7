#include "comm/verdict.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "base/handle.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace gpt {
namespace {

std::string path_in(const std::string& folder) { return folder + "/verdict.json"; }

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  struct tm parts {};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string to_json(const Verdict& verdict) {
  nlohmann::ordered_json object;
  object["exit_code"] = verdict.exit_code;
  if (verdict.rank) {
    object["rank"] = *verdict.rank;
    object["host"] = verdict.host;
  }
  object["step"] = verdict.step;
  object["phase"] = verdict.phase;
  object["reason"] = verdict.reason;
  object["reported_by"] = verdict.reporter;
  object["time"] = utc_now();
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool write_whole(int file, const std::string& text) {
  const ssize_t written = write(file, text.data(), text.size());
  return written == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
}

/// Gives the finished file its name. False if there is one of that name.
bool publish(int file, const std::string& mine, const std::string& path) {
  if (link(mine.c_str(), path.c_str()) == 0) return true;
  if (errno == EEXIST) return false;
  // Some network file systems report a failure of a link that was made, others have no links.
  struct stat status {};
  if (fstat(file, &status) == 0 && status.st_nlink == 2) return true;
  return renameat2(AT_FDCWD, mine.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0 || errno != EEXIST;
}

}  // namespace

bool write_verdict(const std::string& folder, const Verdict& verdict) noexcept try {
  const FileFault fault = file_point("verdict");
  std::string mine = folder + "/.verdict-XXXXXX";
  const int file = mkostemp(mine.data(), O_CLOEXEC);
  if (file < 0) return true;
  fchmod(file, 0644);
  const bool written = fault.error == 0 && write_whole(file, to_json(verdict));
  const bool first = !written || publish(file, mine, path_in(folder));
  unlink(mine.c_str());
  close(file);
  return first;
} catch (const std::exception&) {  // no memory
  return true;
}

void remove_verdict(const std::string& folder) {
  const std::string path = path_in(folder);
  const int failure = unlink(path.c_str()) == 0 ? 0 : errno;
  validate(failure == 0 || failure == ENOENT, "cannot remove {} of an earlier attempt: {}", path,
           std::generic_category().message(failure));
}

}  // namespace gpt
