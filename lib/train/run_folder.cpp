#include "train/run_folder.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "train/lease.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <system_error>
#include <unistd.h>

namespace gpt {

RunFolder::RunFolder(const std::string& path) : path_(path) {
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  validate(!error, "cannot make the run folder {}: {}", path_, error.message());
  lease_ = std::make_unique<Lease>(path_);
}

RunFolder::~RunFolder() = default;

void RunFolder::confirm() const {
  if (lease_->is_held()) {
    const std::string failure = lease_->renew();
    validate(failure.empty(), ExitCode::failed, "{}: this job stops before another takes the folder over",
             failure);
    return;
  }
  std::error_code error;
  validate(std::filesystem::exists(path_, error), ExitCode::failed, "the run folder {} is gone", path_);
  validate(std::filesystem::exists(lease_->path(), error), "the lease {} was deleted: this job stops",
           lease_->path());
  throw Error(fmt::format("run folder {} was taken over by {}: this job stops", path_,
                          describe(parse_lease(read_small_file(lease_->path(), int64_t{64} << 10)))),
              ExitCode::usage);
}

void RunFolder::write_text(const std::string& name, const std::string& text) const {
  const std::string target = path_ + "/" + name;
  const std::string aside = fmt::format("{}/.{}.{}", path_, name, getpid());
  {
    const FileHandle file(open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    validate(static_cast<bool>(file), ExitCode::failed, "cannot write {}: {}", target,
             std::generic_category().message(errno));
    write_at(file, aside, 0, std::as_bytes(std::span(text)), file_point("folder.write"));
  }
  publish_file(aside, target);
}

}  // namespace gpt
