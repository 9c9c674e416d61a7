#pragma once

#include "base/integers.hpp"
#include "data/batch_reader.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// A stretch of a run in which steps follow each other: it begins where a program starts training, or goes
/// back to a checkpoint.
struct LedgerStretch {
  int64_t attempt = 0;  ///< as in log.jsonl
  uint64_t run_id = 0;
  int64_t branch = 0;
  int64_t from_branch = -1;  ///< of the checkpoint from which it goes on; -1: it begins from nothing
  bool elsewhere = false;    ///< that checkpoint was named by the user, and is in another folder

  // Where it begins.
  int64_t step = 0;            ///< steps done
  int64_t cursor = 0;          ///< windows consumed per lane
  std::vector<Range> skipped;  ///< windows of each lane that are passed over (Lanes)

  int64_t lanes = 0;
  int64_t windows_per_lane = 0;
  int64_t context = 0;
  int64_t global_batch = 0;
  int64_t ranks = 0;
  uint64_t dataset = 0;  ///< fingerprint

  int64_t windows_per_step() const { return global_batch / lanes; }  ///< of each lane
  /// Windows consumed per lane when so many steps of the run are done.
  int64_t cursor_after(int64_t steps_done) const { return cursor + (steps_done - step) * windows_per_step(); }
};

std::string to_text(const LedgerStretch& stretch);
/// @throws Error(damaged) in a sentence that does not name the file, also where figures contradict each other
LedgerStretch stretch_from_text(const std::string& text);

/// What one rank read for one step, in the order of its sequences.
struct StepReads {
  int64_t step = 0;            ///< that it is for, from 1
  int64_t cursor = 0;          ///< windows consumed per lane before it
  int64_t first_sequence = 0;  ///< index in the global batch
  std::vector<WindowRead> reads;
};

/// Appends the step in its binary form, mostly the first token of each sequence as a varint (LEB128).
void append_reads(std::string& to, const StepReads& step);
/// What was appended, in that order. @throws Error(damaged) in a sentence that does not name the file
void parse_reads(std::string_view bytes, const std::function<void(const StepReads&)>& take);

/// What is written and checked as a whole: a head of 32 bytes with a checksum, and a payload. Byte table in
/// docs/ledger.md.
struct LedgerGroup {
  static constexpr int64_t head_bytes = 32;
  static constexpr int64_t longest_payload = int64_t{64} << 20;
  static constexpr std::string_view magic = "GPTMPIRD";

  enum class Kind : uint32_t {
    stretch = 1,  ///< the payload is a LedgerStretch as text
    reads = 2     ///< steps of one rank
  };

  Kind kind = Kind::reads;
  int64_t rank = 0;
  int64_t stretch = 0;  ///< index of the stretch in its file
  std::string payload;
};

std::string encode_group(const LedgerGroup& group);

/// The rest of the first LedgerGroup::head_bytes of a group: bytes of its payload; negative if that is no
/// head.
int64_t payload_bytes(std::string_view head);

/// @param bytes  head and payload; false if the checksum or anything else is not as it was written
bool decode_group(std::string_view bytes, LedgerGroup& group);

}  // namespace gpt
