#include "train/step_model.hpp"

#include "base/contracts.hpp"
#include "device/dtype.hpp"
#include "train/buckets.hpp"

#include <algorithm>

namespace gpt {

std::vector<ReadyGradients> ready_gradients(const Layout& layout, const GptConfig& config, double compute) {
  // Multiplications a token, forward: each element of a matrix one, and each position half a context of
  // scores and of weighted values (causal).
  const auto width = static_cast<double>(config.width);
  const double attention = 4.0 * width * width + width * static_cast<double>(config.context);
  const double mlp = 8.0 * width * width;
  const double head = static_cast<double>(config.padded_vocabulary()) * width;
  const auto layers = static_cast<double>(config.layers);
  const double unit = compute / (3.0 * (layers * (attention + mlp) + head));

  double now = unit * (layers * (attention + mlp) + 3.0 * head);
  std::vector<ReadyGradients> sections;
  for (const Range& range : layout.ranges_in_backward_order()) sections.push_back({range, now});
  // The branches of block after block; vectors and embeddings are complete with the last one.
  const size_t branches = sections.size() - 2;
  for (size_t branch = 0; branch < branches; ++branch) {
    now += unit * 2.0 * (branch % 2 == 0 ? mlp : attention);
    sections[branch].ready = now;
  }
  for (size_t rest = branches; rest < sections.size(); ++rest) sections[rest].ready = now;
  return sections;
}

std::vector<ReadyGradients> ready_gradients(int64_t elements, int64_t layers, double compute) {
  expects(layers >= 1);
  std::vector<ReadyGradients> sections;
  for (int64_t layer = layers - 1; layer >= 0; --layer) {
    const double done = static_cast<double>(layers - layer) / static_cast<double>(layers);
    sections.push_back({part_of(elements, layers, layer), compute * (1.0 + 2.0 * done) / 3.0});
  }
  return sections;
}

std::vector<Bucket> buckets_of(std::span<const ReadyGradients> sections, int64_t bucket_bytes) {
  std::vector<Range> ranges;
  for (const ReadyGradients& section : sections) ranges.push_back(section.elements);
  const std::vector<int64_t> joined = join_neighbours(ranges, bucket_bytes);
  std::vector<Bucket> buckets(joined.empty() ? 0 : static_cast<size_t>(joined.back()) + 1);
  for (size_t i = 0; i < ranges.size(); ++i) {
    Bucket& bucket = buckets[static_cast<size_t>(joined[i])];
    bucket.ready = sections[i].ready;
    bucket.bytes += static_cast<double>(ranges[i].size() * size_of(DType::f32));
  }
  return buckets;
}

double pipeline_end(std::span<const Message> messages) {
  double end = 0.0;
  for (const Message& message : messages) end = std::max(end, message.ready) + message.seconds;
  return end;
}

namespace {

/// Backward and the messages behind it. A second in which something travels brings backward forward by less.
class Step {
public:
  /// @param pace  of backward while something travels, from 0 to 1
  explicit Step(double pace) : pace_(pace) {}

  /// Goes on until `work` seconds of computing are done, and says when that is.
  double compute_until(double work) {
    if (work <= work_) return now_;
    if (now_ < sent_) {
      const double possible = pace_ * (sent_ - now_);
      if (possible >= work - work_) {
        now_ += (work - work_) / pace_;
        work_ = work;
        return now_;
      }
      work_ += possible;
      now_ = sent_;
    }
    now_ += work - work_;
    work_ = work;
    return now_;
  }

  /// Puts a message of `seconds` on the line, behind those that are on it.
  void send(double seconds) { sent_ = std::max(sent_, now_) + seconds; }
  /// When the last message has travelled.
  double sent() const { return sent_; }

private:
  double pace_;
  double now_ = 0.0, work_ = 0.0, sent_ = 0.0;
};

}  // namespace

StepPrediction predict_step(const Cluster& cluster, const CommPlan& plan, const StepShape& shape) {
  std::vector<Message> messages;
  StepPrediction prediction;
  if (cluster.ranks() > 1)
    for (const Bucket& bucket : buckets_of(shape.gradients, shape.bucket_bytes)) {
      messages.push_back({bucket.ready, all_reduce_seconds(cluster, plan, bucket.bytes)});
      prediction.communication += messages.back().seconds;
    }
  const double lost = prediction.communication > 0.0 ? shape.thread / prediction.communication : 0.0;
  Step step(std::max(0.0, 1.0 - lost));
  for (const Message& message : messages) {
    step.compute_until(message.ready);
    step.send(message.seconds);
  }
  const double backward_end = step.compute_until(shape.compute);
  const double alone = shape.compute + shape.optimizer;
  prediction.step = std::max(backward_end, step.sent()) + shape.optimizer;
  prediction.exposed = prediction.step - alone;
  prediction.efficiency = alone / prediction.step;
  return prediction;
}

}  // namespace gpt
