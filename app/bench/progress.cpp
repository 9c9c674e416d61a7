#include "bench/progress.hpp"

#include "base/notice.hpp"

#include <fmt/format.h>

namespace gpt {
namespace {

constexpr auto between_lines = std::chrono::seconds(2);

}  // namespace

Progress::Progress(const World& world, std::string_view command, int64_t total)
    : speaks_(world.is_root()), command_(command), total_(total) {
  if (speaks_) bar_(command_, 0, total_);
}

void Progress::operator()(const std::string& what) {
  ++done_;
  if (!speaks_) return;
  bar_(command_, done_, total_);
  const auto now = Clock::now();
  if (bar_.is_terminal() || now - last_ < between_lines) return;
  last_ = now;
  notice(fmt::format("gpt_bench {}: {} of {}: {}", command_, done_, total_, what));
}

}  // namespace gpt
