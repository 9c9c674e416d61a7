#include "data/dataset_writer.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/integers.hpp"
#include "data/file_io.hpp"
#include "data/shard_format.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace gpt {
namespace {

void check_split(const char* name, const char* option, int64_t tokens, int64_t shards) {
  validate(tokens / shards <= most_shard_tokens,
           "{} tokens in {} {} shards: at most 2^46 fit one; use more shards", tokens, shards, name);
  validate(tokens >= 2 * shards,
           "{} {} tokens are too few for {} shard{}, which need at least 2 each ({} in all): give more text, "
           "or {}",
           tokens, name, shards, shards == 1 ? "" : "s", 2 * shards, option);
}

}  // namespace

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
    : folder_(folder), manifest_(std::move(manifest)), plan_(plan) {
  plan_.check();
  manifest_.vocabulary = load_tokenizer(manifest_.tokenizer)->vocabulary();
  manifest_.token_bytes = token_bytes_for(manifest_.vocabulary);
  manifest_.train.clear();
  manifest_.val.clear();
  open_next();
}

void DatasetWriter::open_next() {
  const bool training = next_ < plan_.train_shards;
  const Split split = training ? Split::train : Split::val;
  const int64_t index = training ? next_ : next_ - plan_.train_shards;
  const int64_t count = training ? plan_.train_shards : plan_.val_shards;
  room_ = part_of(training ? plan_.train_tokens : plan_.val_tokens, count, index).size();
  shard_.emplace(folder_.staging(), shard_file(split, index, count), manifest_, split, room_);
  ++next_;
}

void DatasetWriter::close_shard() {
  const ShardInfo info = shard_->finish();
  begin_sync(folder_.staging() + "/" + info.file);  // the disk works while the next shards are made
  (next_ <= plan_.train_shards ? manifest_.train : manifest_.val).push_back(info);
  shard_.reset();
}

void DatasetWriter::append(std::span<const Token> tokens) {
  while (!tokens.empty()) {
    // A full shard stays open until more comes: the document that filled it may end right here.
    if (room_ == 0) {
      validate(next_ < plan_.train_shards + plan_.val_shards, ExitCode::failed,
               "{}: more tokens came than were counted", folder_.path());
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
           "{}: fewer tokens came than were counted; did an input file change while it was read?",
           folder_.path());
  close_shard();
  manifest_.write(folder_.staging());
  std::vector<std::string> files;
  for (const Split split : {Split::train, Split::val}) {
    for (const ShardInfo& shard : manifest_.shards(split)) files.push_back(shard.file);
  }
  folder_.publish(files);
  return manifest_;
}

}  // namespace gpt
