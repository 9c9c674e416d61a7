#include "settings.hpp"

#include "failure.hpp"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace standin {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const char* name, std::string_view value, const char* wanted) {
  fail("{}={} is not {}", name, value, wanted);
}

template <class T>
bool parse(std::string_view text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
void read_number(const char* name, T& value) {
  const std::string_view text = variable(name);
  if (!text.empty() && (!parse(text, value) || value < T{0})) refuse(name, text, "a number");
}

void read_seconds(const char* name, double& value) {
  const std::string text(variable(name));
  if (text.empty()) return;
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(value > 0)) refuse(name, text, "a number of seconds");
}

void read_bytes(const char* name, size_t& value) {
  std::string_view text = variable(name);
  if (text.empty()) return;
  const size_t unit = std::string_view("KMG").find(text.back());
  const int shift = unit == std::string_view::npos ? 0 : 10 * (int(unit) + 1);
  if (shift > 0) text.remove_suffix(1);
  if (!parse(text, value)) refuse(name, text, "a number of bytes, or one with K, M or G");
  value <<= shift;
}

Order read_order() {
  const std::string_view text = variable("GPT_CUDA_STANDIN_ORDER");
  if (text.empty() || text == "forward") return Order::forward;
  if (text == "reverse") return Order::reverse;
  if (text == "shuffle") return Order::shuffle;
  refuse("GPT_CUDA_STANDIN_ORDER", text, "forward, reverse or shuffle");
}

StreamMode read_streams() {
  const std::string_view text = variable("GPT_CUDA_STANDIN_STREAMS");
  if (text.empty() || text == "deferred") return StreamMode::deferred;
  if (text == "eager") return StreamMode::eager;
  if (text == "racing") return StreamMode::racing;
  refuse("GPT_CUDA_STANDIN_STREAMS", text, "deferred, eager or racing");
}

/// Calls `each` with the parts of a list with commas; stops when it returns false.
template <class Each>
void split(std::string_view list, Each each) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (!each(list.substr(0, comma)) || comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

std::vector<uint32_t> read_uuids() {
  std::vector<uint32_t> uuids;
  split(variable("GPT_CUDA_STANDIN_UUIDS"), [&](std::string_view entry) {
    if (!parse(entry, uuids.emplace_back(), 16))
      refuse("GPT_CUDA_STANDIN_UUIDS", entry, "a list of hexadecimal numbers");
    return true;
  });
  return uuids;
}

Settings read_settings() {
  Settings result;
  if (const std::string_view name = variable("GPT_CUDA_STANDIN_NAME"); !name.empty()) result.name = name;
  result.order = read_order();
  result.streams = read_streams();
  read_number("GPT_CUDA_STANDIN_SEED", result.seed);
  read_bytes("GPT_CUDA_STANDIN_MEMORY", result.memory);
  read_bytes("GPT_CUDA_STANDIN_NCCL_MEMORY", result.nccl_memory);
  read_seconds("GPT_CUDA_STANDIN_TIMEOUT", result.timeout);
  size_t devices = 1;
  read_number("GPT_CUDA_STANDIN_DEVICES", devices);
  result.devices = visible_devices(devices, read_uuids(), std::getenv("CUDA_VISIBLE_DEVICES"));
  return result;
}

}  // namespace

std::vector<uint32_t> visible_devices(size_t count, const std::vector<uint32_t>& uuids, const char* visible) {
  const auto number = [&](size_t index) { return index < uuids.size() ? uuids[index] : uint32_t(index); };
  std::vector<uint32_t> result;
  if (!visible) {
    for (size_t i = 0; i < count; ++i) result.push_back(number(i));
    return result;
  }
  split(visible, [&](std::string_view entry) {
    size_t index = count;
    if (!parse(entry, index))
      for (size_t i = count; i-- > 0;)
        if (!entry.empty() && uuid_text(number(i)).starts_with(entry)) index = i;
    if (index >= count) return false;
    result.push_back(number(index));
    return true;
  });
  return result;
}

std::string uuid_text(uint32_t number) {
  return fmt::format("GPU-{:08x}-5374-616e-642d-696e20475055", number);
}

Settings& settings() {
  static Settings values = read_settings();
  return values;
}

}  // namespace standin
