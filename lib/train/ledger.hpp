#pragma once

#include "comm/world.hpp"
#include "data/batch_reader.hpp"
#include "train/ledger_file.hpp"
#include "train/ledger_format.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gpt {

/// What this rank read of the training data, kept in memory until all ranks' records go into one file of the
/// run folder, which the root writes: as many ranks as there are, one file a start. Recording a step costs
/// some bytes and no call of the system. May be used by several threads.
class Ledger {
public:
  Ledger(std::string run_folder, int rank) : run_folder_(std::move(run_folder)), rank_(rank) {}

  /// Steps recorded from now on belong to this stretch. The root's description of it is kept.
  void begin(const LedgerStretch& stretch);

  /// @param step    that the batch is for, from 1
  /// @param cursor  windows consumed per lane before it
  void record(int64_t step, int64_t cursor, const HostBatch& batch);

  /// Brings what was recorded to the disk: for use before a checkpoint is committed. Collective.
  /// @throws SharedError(saving_failed) on all ranks; the records are kept for the next time
  void flush(const World& world);

  /// The same where no checkpoint waits for it: a disk that takes nothing is a warning, once until it does.
  void keep(const World& world);

  /// Steps after which records should not be kept in memory any longer, the same on all ranks: about 2 MB
  /// each.
  static int64_t interval(int64_t global_batch, int64_t ranks);

private:
  void close_group();
  std::string take();
  void give_back(const std::string& records);
  void write(const World& world, std::string_view records);

  const std::string run_folder_;
  const int rank_;

  std::mutex mutex_;
  std::string pending_;    // groups
  std::string open_;       // payload of the next
  int64_t stretches_ = 0;  // begun
  bool losing_ = false;

  std::mutex writing_;  // the root's, of the file
  std::optional<LedgerFile> file_;
};

}  // namespace gpt
