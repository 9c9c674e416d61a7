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

void RunFolder::confirm() const { lease_->confirm(); }

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
