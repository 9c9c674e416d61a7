#include "data/output_folder.hpp"

#include "base/error.hpp"
#include "data/file_io.hpp"
#include "data/shard_format.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace gpt {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view hidden_prefix = ".gpt_data-";  // also of files that open_nameless_file makes

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

bool is_dataset_file(std::string name) {
  constexpr std::string_view partial = ".partial";
  if (name.ends_with(partial)) name.resize(name.size() - partial.size());
  if (name == manifest_file) return true;
  for (const Split split : {Split::train, Split::val}) {
    const std::string form = shard_file(split, 0, 0);
    if (name.size() == form.size() && without_digits(name) == without_digits(form)) return true;
  }
  return false;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  validate(!error, ExitCode::failed, "cannot look into '{}': {}", folder, error.message());
  return names;
}

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

}  // namespace

OutputFolder::OutputFolder(std::string path, bool overwrite) : path_(std::move(path)) {
  validate(!path_.empty(), "the output folder has no name: give one with --out");
  std::error_code error;
  if (fs::exists(path_, error)) {
    validate(fs::is_directory(path_, error), "cannot write to '{}': it is not a folder", path_);
    const auto names = names_in(path_);
    if (names.empty()) return;
    const bool dataset = std::any_of(names.begin(), names.end(), [](const std::string& name) {
      return is_dataset_file(name) || name.starts_with(hidden_prefix);
    });
    validate(dataset, "the output folder '{}' holds other files, not a dataset: choose another folder",
             path_);
    validate(
        overwrite,
        "the output folder '{}' is not empty: choose another, or add --overwrite true to replace the dataset",
        path_);
    return;
  }
  fs::create_directories(path_, error);
  validate(!error, ExitCode::failed, "cannot make the folder '{}': {}", path_, error.message());
  made_ = true;
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
  if (made_) fs::remove(path_, ignored);  // fails, as it should, once there is something inside
}

const std::string& OutputFolder::staging() {
  if (!staging_.empty()) return staging_;
  std::string name = in(path_, std::string(hidden_prefix) + "XXXXXX");
  validate(::mkdtemp(name.data()) != nullptr, ExitCode::failed, "cannot make a folder in '{}': {}", path_,
           std::generic_category().message(errno));
  staging_ = name;
  return staging_;
}

void OutputFolder::publish(const std::vector<std::string>& shards) {
  std::vector<std::string> paths{in(staging(), manifest_file)};
  for (const std::string& shard : shards) paths.push_back(in(staging_, shard));
  sync_files(paths);
  const std::string former = in(staging_, "former");
  std::error_code error;
  fs::create_directory(former, error);
  validate(!error, ExitCode::failed, "cannot make the folder '{}': {}", former, error.message());
  exchange(shards, former);

  for (const std::string& name : names_in(path_)) {  // also what killed programs left
    if (name.starts_with(hidden_prefix)) fs::remove_all(in(path_, name), error);
  }
  staging_.clear();
}

void OutputFolder::exchange(const std::vector<std::string>& shards, const std::string& former) {
  std::vector<std::pair<std::string, std::string>> renamed;
  const auto rename = [&](const std::string& from, const std::string& to) {
    rename_file(from, to);
    renamed.emplace_back(from, to);
  };
  const auto names = names_in(path_);
  try {
    if (std::find(names.begin(), names.end(), manifest_file) != names.end()) {
      rename(in(path_, manifest_file), in(former, manifest_file));
      sync_folder(path_);
    }
    for (const std::string& name : names) {
      if (name != manifest_file && is_dataset_file(name)) rename(in(path_, name), in(former, name));
    }
    for (const std::string& shard : shards) rename(in(staging_, shard), in(path_, shard));
    sync_folder(path_);
    rename(in(staging_, manifest_file), in(path_, manifest_file));
    sync_folder(path_);
  } catch (const Error&) {
    std::error_code ignored;
    for (auto done = renamed.rbegin(); done != renamed.rend(); ++done) {
      fs::rename(done->second, done->first, ignored);
    }
    throw;
  }
}

}  // namespace gpt
