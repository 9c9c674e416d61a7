#include "train/ledger_format.hpp"

#include "base/contracts.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

namespace gpt {
namespace {

// Offsets in the head. All numbers are little-endian.
constexpr size_t at_kind = 8;
constexpr size_t at_rank = 12;
constexpr size_t at_stretch = 16;
constexpr size_t at_bytes = 20;
constexpr size_t at_checksum = 24;
constexpr size_t head_size = LedgerGroup::head_bytes;

// So that windows of all steps can be counted in 64 bits.
constexpr int64_t most_steps = int64_t{1} << 34;
constexpr int64_t largest_batch = int64_t{1} << 28;
constexpr int64_t most_windows = int64_t{1} << 60;

void put(std::string& to, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

uint64_t get(std::string_view from, size_t offset, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(from[offset + i])) << (8 * i);
  return value;
}

/// Of the head without its checksum, and the payload.
uint64_t checksum_of(std::string_view bytes) {
  StreamHash hash;
  hash.update(bytes.data(), at_checksum);
  hash.update(bytes.data() + head_size, bytes.size() - head_size);
  return hash.digest();
}

void put_varint(std::string& to, int64_t value) {
  expects(value >= 0);
  auto rest = static_cast<uint64_t>(value);
  for (; rest >= 0x80; rest >>= 7) to.push_back(static_cast<char>((rest & 0x7f) | 0x80));
  to.push_back(static_cast<char>(rest));
}

/// What is left of a payload.
class Varints {
public:
  explicit Varints(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  int64_t next() {
    constexpr int longest = 63;
    uint64_t value = 0;
    for (int shift = 0; shift < longest; shift += 7) {
      validate(!rest_.empty(), ExitCode::damaged, "a record of reads ends inside a number");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return static_cast<int64_t>(value);
    }
    throw Error("a record of reads holds a number of more than 63 bits", ExitCode::damaged);
  }

  /// A number of things of which each takes a byte at least.
  int64_t next_count() {
    const int64_t count = next();
    validate(count <= std::ssize(rest_), ExitCode::damaged, "a record says {} reads and has {} bytes left",
             count, rest_.size());
    return count;
  }

private:
  std::string_view rest_;
};

uint64_t from_hex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  validate(error == std::errc() && end == text.data() + text.size(), ExitCode::damaged,
           "'{}' is no hexadecimal number", text);
  return value;
}

void validate_stretch(const LedgerStretch& s) {
  validate(s.step >= 0 && s.step <= most_steps && s.cursor >= 0 && s.cursor <= most_windows &&
               s.branch >= 0 && s.from_branch >= -1,
           ExitCode::damaged, "a stretch begins at step {}, cursor {}, branch {} from {}", s.step, s.cursor,
           s.branch, s.from_branch);
  validate(s.lanes >= 1 && s.global_batch >= s.lanes && s.global_batch <= largest_batch &&
               s.global_batch % s.lanes == 0 && s.windows_per_lane >= 1 &&
               s.windows_per_lane <= most_windows / s.lanes && s.context >= 1 && s.ranks >= 1,
           ExitCode::damaged, "a stretch has {} lanes of {} windows, batches of {}, context {}, {} ranks",
           s.lanes, s.windows_per_lane, s.global_batch, s.context, s.ranks);
  int64_t end = 0;
  for (const Range& range : s.skipped) {
    validate(range.begin >= end && range.end >= range.begin && range.end <= most_windows, ExitCode::damaged,
             "a stretch passes over {} to {}, which is out of place", range.begin, range.end);
    end = range.end;
  }
}

}  // namespace

std::string to_text(const LedgerStretch& stretch) {
  nlohmann::json skipped = nlohmann::json::array();
  for (const Range& range : stretch.skipped) skipped.push_back({range.begin, range.end});
  return nlohmann::json{{"attempt", stretch.attempt},     {"run_id", to_hex(stretch.run_id)},
                        {"branch", stretch.branch},       {"from_branch", stretch.from_branch},
                        {"elsewhere", stretch.elsewhere}, {"step", stretch.step},
                        {"cursor", stretch.cursor},       {"skipped", skipped},
                        {"lanes", stretch.lanes},         {"windows_per_lane", stretch.windows_per_lane},
                        {"context", stretch.context},     {"global_batch", stretch.global_batch},
                        {"ranks", stretch.ranks},         {"dataset", to_hex(stretch.dataset)}}
      .dump();
}

LedgerStretch stretch_from_text(const std::string& text) {
  LedgerStretch stretch;
  try {
    const auto object = nlohmann::json::parse(text);
    stretch = {.attempt = object.at("attempt"),
               .run_id = from_hex(object.at("run_id").get<std::string>()),
               .branch = object.at("branch"),
               .from_branch = object.at("from_branch"),
               .elsewhere = object.at("elsewhere"),
               .step = object.at("step"),
               .cursor = object.at("cursor"),
               .skipped = {},
               .lanes = object.at("lanes"),
               .windows_per_lane = object.at("windows_per_lane"),
               .context = object.at("context"),
               .global_batch = object.at("global_batch"),
               .ranks = object.at("ranks"),
               .dataset = from_hex(object.at("dataset").get<std::string>())};
    for (const auto& range : object.at("skipped"))
      stretch.skipped.push_back({range.at(0).get<int64_t>(), range.at(1).get<int64_t>()});
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("a stretch cannot be read: {}", error.what()), ExitCode::damaged);
  }
  validate_stretch(stretch);
  return stretch;
}

void append_reads(std::string& to, const StepReads& step) {
  put_varint(to, step.step);
  put_varint(to, step.cursor);
  put_varint(to, step.first_sequence);
  put_varint(to, std::ssize(step.reads));
  // Sequences of one shard lie side by side.
  for (auto run = step.reads.begin(); run != step.reads.end();) {
    auto end = run;
    while (end != step.reads.end() && end->shard == run->shard) ++end;
    put_varint(to, end - run);
    put_varint(to, run->shard);
    for (; run != end; ++run) put_varint(to, run->token);
  }
}

void parse_reads(std::string_view bytes, const std::function<void(const StepReads&)>& take) {
  for (Varints numbers(bytes); !numbers.empty();) {
    StepReads step;
    step.step = numbers.next();
    step.cursor = numbers.next();
    step.first_sequence = numbers.next();
    const int64_t count = numbers.next_count();
    validate(step.step >= 1 && step.step <= most_steps && step.first_sequence <= largest_batch - count,
             ExitCode::damaged, "a record is of step {}, {} sequences from {} on", step.step, count,
             step.first_sequence);
    step.reads.reserve(static_cast<size_t>(count));
    while (std::ssize(step.reads) < count) {
      const int64_t run = numbers.next_count();
      validate(run >= 1 && run <= count - std::ssize(step.reads), ExitCode::damaged,
               "a record says {} reads of a shard, where {} are left", run, count - std::ssize(step.reads));
      const int64_t shard = numbers.next();
      for (int64_t i = 0; i < run; ++i) step.reads.push_back({.shard = shard, .token = numbers.next()});
    }
    take(step);
  }
}

std::string encode_group(const LedgerGroup& group) {
  expects(std::ssize(group.payload) <= LedgerGroup::longest_payload);
  std::string bytes(LedgerGroup::magic);
  put(bytes, static_cast<uint64_t>(group.kind), 4);
  put(bytes, static_cast<uint64_t>(group.rank), 4);
  put(bytes, static_cast<uint64_t>(group.stretch), 4);
  put(bytes, group.payload.size(), 4);
  put(bytes, 0, 8);
  bytes += group.payload;
  std::string checksum;
  put(checksum, checksum_of(bytes), 8);
  return bytes.replace(at_checksum, checksum.size(), checksum);
}

int64_t payload_bytes(std::string_view head) {
  if (head.size() < head_size || !head.starts_with(LedgerGroup::magic)) return -1;
  const auto bytes = static_cast<int64_t>(get(head, at_bytes, 4));
  return bytes <= LedgerGroup::longest_payload ? bytes : -1;
}

bool decode_group(std::string_view bytes, LedgerGroup& group) {
  if (payload_bytes(bytes) != std::ssize(bytes) - LedgerGroup::head_bytes) return false;
  if (get(bytes, at_checksum, 8) != checksum_of(bytes)) return false;
  const uint64_t kind = get(bytes, at_kind, 4);
  if (kind != static_cast<uint64_t>(LedgerGroup::Kind::stretch) &&
      kind != static_cast<uint64_t>(LedgerGroup::Kind::reads))
    return false;
  group = {.kind = static_cast<LedgerGroup::Kind>(kind),
           .rank = static_cast<int64_t>(get(bytes, at_rank, 4)),
           .stretch = static_cast<int64_t>(get(bytes, at_stretch, 4)),
           .payload = std::string(bytes.substr(head_size))};
  return true;
}

}  // namespace gpt
