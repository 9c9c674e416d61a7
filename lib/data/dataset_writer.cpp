#include "data/dataset_writer.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/integers.hpp"
#include "data/shard_format.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

namespace gpt {
namespace fs = std::filesystem;
namespace {

void check_split(const char* name, const char* option, int64_t tokens, int64_t shards) {
  validate(tokens / shards <= most_shard_tokens,
           "{} tokens in {} {} shards: at most 2^46 fit one; use more shards", tokens, shards, name);
  validate(tokens >= 2 * shards,
           "{} {} tokens are too few for {} shard{}, which need at least 2 each ({} in all): give more text, "
           "or {}",
           tokens, name, shards, shards == 1 ? "" : "s", 2 * shards, option);
}

std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

/// Whether a file's name is one that this program gives, finished or not.
bool is_ours(std::string name) {
  constexpr std::string_view partial = ".partial";
  if (name.ends_with(partial)) name.resize(name.size() - partial.size());
  if (name == manifest_file) return true;
  for (const Split split : {Split::train, Split::val}) {
    const std::string form = shard_file(split, 0, 0);
    if (name.size() == form.size() && without_digits(name) == without_digits(form)) return true;
  }
  return false;
}

}  // namespace

OutputFolder::OutputFolder(std::string path, bool overwrite) : path_(std::move(path)) {
  validate(!path_.empty(), "the output folder has no name: give one with --out");
  std::error_code error;
  if (fs::exists(path_, error)) {
    validate(fs::is_directory(path_, error), "cannot write to '{}': it is not a folder", path_);
    validate(
        overwrite || fs::is_empty(path_, error),
        "the output folder '{}' is not empty: choose another, or add --overwrite true to replace the dataset",
        path_);
    validate(!error, ExitCode::failed, "cannot look into '{}': {}", path_, error.message());
    return;
  }
  fs::create_directories(path_, error);
  validate(!error, ExitCode::failed, "cannot make the folder '{}': {}", path_, error.message());
  made_ = true;
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (made_) fs::remove(path_, ignored);  // fails, as it should, once there is something inside
}

void OutputFolder::clear() {
  fs::remove(fs::path(path_) / manifest_file);
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (is_ours(entry.path().filename().string())) fs::remove(entry.path());
  }
}

void SplitPlan::check_options(double val_fraction, int64_t train_shards, int64_t val_shards) {
  validate(val_fraction >= 0 && val_fraction < 1, "--val-fraction {}: use a number from 0 to below 1",
           val_fraction);
  for (const auto& [name, shards] :
       {std::pair("shards", train_shards), std::pair("val-shards", val_shards)}) {
    validate(shards >= 1 && shards <= most_shards, "--{} {}: use 1 to {}", name, shards, most_shards);
  }
}

SplitPlan SplitPlan::by_fraction(int64_t total, double val_fraction, int64_t train_shards,
                                 int64_t val_shards) {
  check_options(val_fraction, train_shards, val_shards);
  const auto train = static_cast<int64_t>(std::floor(static_cast<double>(total) * (1 - val_fraction)));
  const SplitPlan plan{train, train_shards, total - train, train == total ? 0 : val_shards};
  plan.check();
  return plan;
}

void SplitPlan::check() const {
  const bool validates = val_tokens > 0;
  check_options(0, train_shards, validates ? val_shards : 1);
  expects(validates == (val_shards > 0));
  check_split("training", "fewer with --shards", train_tokens, train_shards);
  if (validates)
    check_split("validation", "keep another part for it (none is possible)", val_tokens, val_shards);
}

DatasetWriter::DatasetWriter(OutputFolder& folder, Manifest manifest, const SplitPlan& plan)
    : folder_(folder.path()), manifest_(std::move(manifest)), plan_(plan) {
  plan_.check();
  manifest_.vocabulary = load_tokenizer(manifest_.tokenizer)->vocabulary();
  manifest_.token_bytes = token_bytes_for(manifest_.vocabulary);
  manifest_.train.clear();
  manifest_.val.clear();
  folder.clear();
  open_next();
}

void DatasetWriter::open_next() {
  const bool training = next_ < plan_.train_shards;
  const Split split = training ? Split::train : Split::val;
  const int64_t index = training ? next_ : next_ - plan_.train_shards;
  const int64_t count = training ? plan_.train_shards : plan_.val_shards;
  room_ = part_of(training ? plan_.train_tokens : plan_.val_tokens, count, index).size();
  shard_.emplace(folder_, shard_file(split, index, count), manifest_, split, room_);
  ++next_;
}

void DatasetWriter::close_shard() {
  (next_ <= plan_.train_shards ? manifest_.train : manifest_.val).push_back(shard_->finish());
  shard_.reset();
}

void DatasetWriter::append(std::span<const Token> tokens) {
  while (!tokens.empty()) {
    // A full shard stays open until more comes: the document that filled it may end right here.
    if (room_ == 0) {
      validate(next_ < plan_.train_shards + plan_.val_shards, ExitCode::failed,
               "{}: more tokens came than were counted", folder_);
      close_shard();
      open_next();
    }
    const auto piece = tokens.first(std::min(tokens.size(), static_cast<size_t>(room_)));
    shard_->append(piece);
    room_ -= static_cast<int64_t>(piece.size());
    tokens = tokens.subspan(piece.size());
  }
}

void DatasetWriter::end_document() { shard_->end_document(); }

Manifest DatasetWriter::finish() {
  validate(room_ == 0 && next_ == plan_.train_shards + plan_.val_shards, ExitCode::failed,
           "{}: fewer tokens came than were counted; did an input file change while it was read?", folder_);
  close_shard();
  manifest_.write(folder_);
  return manifest_;
}

}  // namespace gpt
