#include "data/pickle.hpp"

#include "base/error.hpp"

#include <optional>
#include <variant>
#include <vector>

namespace gpt {
namespace {

struct Mark {};
struct DictIndex {
  size_t index;
};
using Value = std::variant<Mark, int64_t, std::string_view, DictIndex>;  // strings stay in the file's bytes
using Dict = std::vector<std::pair<Value, Value>>;

/// Instructions of Python's pickletools that such a dictionary is made of.
enum Opcode : unsigned char {
  proto = 0x80,
  frame = 0x95,
  empty_dict = '}',
  mark = '(',
  short_unicode = 0x8c,
  unicode = 'X',
  int1 = 'K',
  int2 = 'M',
  int4 = 'J',
  memoize = 0x94,
  put1 = 'q',
  put4 = 'r',
  get1 = 'h',
  get4 = 'j',
  set_item = 's',
  set_items = 'u',
  stop = '.',
};

class Machine {
public:
  Machine(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  /// Runs to the end; returns the dictionary that is left.
  const Dict& run() {
    while (step(static_cast<unsigned char>(take(1).front()))) {
    }
    const Value result = pop();
    const auto* dict = std::get_if<DictIndex>(&result);
    check(dict != nullptr, "it does not hold a dictionary");
    return dicts_[dict->index];
  }

  const Dict* dict(const Value& value) const {
    const auto* found = std::get_if<DictIndex>(&value);
    return found == nullptr ? nullptr : &dicts_[found->index];
  }

private:
  void check(bool ok, std::string_view problem) const {
    validate(ok, "{}: {} at byte {}; give the vocabulary with --vocab or --alphabet instead of --meta", name_,
             problem, at_);
  }

  std::string_view take(uint64_t count) {
    check(count <= bytes_.size() - at_, "the file ends too early");
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }

  uint64_t number(int count) {
    uint64_t value = 0;
    int shift = 0;
    for (const char byte : take(static_cast<uint64_t>(count))) {
      value |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return value;
  }

  Value pop() {
    check(!stack_.empty(), "a value is missing");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }

  void store(uint64_t slot) {
    check(!stack_.empty(), "a value is missing");
    check(slot <= bytes_.size(), "a memo number is too large");
    memo_[slot] = stack_.back();
  }

  void fetch(uint64_t slot) {
    const auto found = memo_.find(slot);
    check(found != memo_.end(), "a memo number is unknown");
    stack_.push_back(found->second);
  }

  Dict& target() {
    check(!stack_.empty() && std::holds_alternative<DictIndex>(stack_.back()),
          "there is no dictionary to fill");
    return dicts_[std::get<DictIndex>(stack_.back()).index];
  }

  void fill_from_mark() {
    std::vector<Value> items;
    for (Value value = pop(); !std::holds_alternative<Mark>(value); value = pop()) items.push_back(value);
    check(items.size() % 2 == 0, "a key has no value");
    Dict& dict = target();
    for (size_t i = items.size(); i > 0; i -= 2) dict.emplace_back(items[i - 1], items[i - 2]);
  }

  /// Returns false at the end.
  bool step(unsigned char opcode) {
    switch (opcode) {
      case proto:
        check(number(1) <= 5, "the pickle protocol is unknown");
        break;
      case frame:
        number(8);
        break;
      case empty_dict:
        stack_.push_back(DictIndex{dicts_.size()});
        dicts_.emplace_back();
        break;
      case mark:
        stack_.push_back(Mark{});
        break;
      case short_unicode:
        stack_.push_back(take(number(1)));
        break;
      case unicode:
        stack_.push_back(take(number(4)));
        break;
      case int1:
        stack_.push_back(static_cast<int64_t>(number(1)));
        break;
      case int2:
        stack_.push_back(static_cast<int64_t>(number(2)));
        break;
      case int4:
        stack_.push_back(int64_t{static_cast<int32_t>(number(4))});
        break;
      case memoize:
        store(memo_.size());
        break;
      case put1:
        store(number(1));
        break;
      case put4:
        store(number(4));
        break;
      case get1:
        fetch(number(1));
        break;
      case get4:
        fetch(number(4));
        break;
      case set_item: {
        const Value value = pop();
        const Value key = pop();
        target().emplace_back(key, value);
        break;
      }
      case set_items:
        fill_from_mark();
        break;
      case stop:
        return false;
      default:
        check(false, fmt::format(
                         "instruction 0x{:02x}, which this program does not carry out (it reads dictionaries "
                         "of numbers and strings only),",
                         opcode));
    }
    return true;
  }

  std::string_view bytes_;
  const std::string& name_;
  size_t at_ = 0;
  std::vector<Value> stack_;
  std::vector<Dict> dicts_;
  std::map<uint64_t, Value> memo_;
};

}  // namespace

PickledMeta read_pickled_meta(std::string_view bytes, const std::string& name) {
  Machine machine(bytes, name);
  PickledMeta meta;
  for (const auto& [key, value] : machine.run()) {
    const auto* word = std::get_if<std::string_view>(&key);
    if (word == nullptr) continue;
    if (*word == "vocab_size" && std::holds_alternative<int64_t>(value))
      meta.vocabulary = std::get<int64_t>(value);
    if (*word != "itos" || machine.dict(value) == nullptr) continue;
    for (const auto& [id, text] : *machine.dict(value)) {
      validate(std::holds_alternative<int64_t>(id) && std::holds_alternative<std::string_view>(text),
               "{}: 'itos' does not map numbers to texts", name);
      meta.texts[std::get<int64_t>(id)] = std::get<std::string_view>(text);
    }
  }
  validate(meta.vocabulary >= 1, "{} has no 'vocab_size': give it with --vocab instead of --meta", name);
  return meta;
}

}  // namespace gpt
