#pragma once

#include "data/manifest.hpp"
#include "data/output_folder.hpp"
#include "data/shard_writer.hpp"
#include "text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace gpt {

/// How many tokens go where.
struct SplitPlan {
  int64_t train_tokens = 0;
  int64_t train_shards = 0;
  int64_t val_tokens = 0;
  int64_t val_shards = 0;  ///< 0: no validation part

  /// The first floor(total·(1 − val_fraction)) tokens train, the rest validate.
  /// @throws Error(usage), with the numbers, for values out of range or fewer than two tokens in a shard
  static SplitPlan by_fraction(int64_t total, double val_fraction, int64_t train_shards, int64_t val_shards);

  /// @throws Error(usage) as above
  void check() const;

  /// What by_fraction would refuse whatever the number of tokens: to be asked before they are counted.
  static void check_options(double val_fraction, int64_t train_shards, int64_t val_shards);
};

/// Cuts one stream of tokens into a dataset's shards: training first, each split into parts whose sizes
/// differ by one token at most. Nothing but finish() changes a dataset that is in the folder.
class DatasetWriter {
public:
  /// @param manifest  tokenizer, seed, source and entropy; the writer adds the rest
  DatasetWriter(OutputFolder& folder, Manifest manifest, const SplitPlan& plan);

  void append(std::span<const Token> tokens);
  void end_document();

  /// Publishes the dataset. @throws Error if fewer tokens came than the plan holds
  Manifest finish();

private:
  void open_next();
  void close_shard();

  OutputFolder& folder_;
  Manifest manifest_;
  SplitPlan plan_;
  std::optional<ShardWriter> shard_;
  int64_t next_ = 0;  // shard to open next, counted over both splits
  int64_t room_ = 0;  // tokens that the open shard still takes
};

}  // namespace gpt
