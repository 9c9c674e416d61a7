#include "device/cpu/matrix_products.hpp"

#include "base/error.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"

#include <dnnl.hpp>
#include <initializer_list>
#include <map>
#include <omp.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpt {
namespace {

using dnnl::memory;

struct Argument {
  int name;  ///< DNNL_ARG_…
  memory::desc desc;
};

/// A primitive with memories that are pointed at the caller's arrays for each run.
class Product {
public:
  Product(const dnnl::engine& engine, dnnl::primitive primitive, const std::vector<Argument>& arguments)
      : primitive_(std::move(primitive)) {
    for (const Argument& argument : arguments) {
      memories_.emplace_back(argument.desc, engine, nullptr);
      arguments_.emplace(argument.name, memories_.back());
    }
  }

  /// `arrays` in the order in which the arguments were given.
  void run(dnnl::stream& stream, std::initializer_list<const float*> arrays) {
    auto memory_of = memories_.begin();
    for (const float* array : arrays)
      if (memory_of != memories_.end()) (memory_of++)->set_data_handle(const_cast<float*>(array));
    primitive_.execute(stream, arguments_);
  }

private:
  dnnl::primitive primitive_;
  std::vector<memory> memories_;
  std::unordered_map<int, memory> arguments_;
};

memory::desc matrix(int64_t rows, int64_t columns, memory::format_tag tag = memory::format_tag::ab) {
  return {{rows, columns}, memory::data_type::f32, tag};
}
memory::desc row(int64_t size) { return {{size}, memory::data_type::f32, memory::format_tag::a}; }

enum class Kind { forward, backward_input, backward_weight };

struct Key {
  Kind kind;
  bool bias;
  LinearShape shape;

  auto operator<=>(const Key&) const = default;
};

}  // namespace

struct MatrixProducts::Impl {
  Impl(Allocator& memory_source, int thread_count)
      : allocator(&memory_source),
        threads(thread_count),
        engine(dnnl::engine::kind::cpu, 0),
        stream(engine) {}

  Product& find(const Key& key) {
    auto found = products.find(key);
    if (found == products.end()) found = products.emplace(key, make(key)).first;
    return found->second;
  }

  Product make(const Key& key) const {
    switch (key.kind) {
      case Kind::forward:
        return make_forward(key.shape, key.bias);
      case Kind::backward_input:
        return make_backward_input(key.shape);
      case Kind::backward_weight:
        return make_backward_weight(key.shape, key.bias);
    }
    contract_broken("kind of product", std::source_location::current());
  }

  /// Arguments: y, x, w, and b if there is one.
  Product make_forward(const LinearShape& s, bool bias) const {
    const auto x = matrix(s.rows, s.in);
    const auto w = matrix(s.in, s.out, memory::format_tag::ba);
    const auto y = matrix(s.rows, s.out);
    const auto b = matrix(1, s.out);
    const dnnl::matmul::desc desc = bias ? dnnl::matmul::desc(x, w, b, y) : dnnl::matmul::desc(x, w, y);
    std::vector<Argument> arguments{{DNNL_ARG_DST, y}, {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}};
    if (bias) arguments.push_back({DNNL_ARG_BIAS, b});
    return {engine, dnnl::matmul({desc, engine}), arguments};
  }

  dnnl::inner_product_forward::primitive_desc forward_hint(const memory::desc& x, const memory::desc& w,
                                                           const memory::desc& y) const {
    return {{dnnl::prop_kind::forward_training, x, w, y}, engine};
  }

  /// Arguments: dx, dy, w.
  Product make_backward_input(const LinearShape& s) const {
    const auto dx = matrix(s.rows, s.in);
    const auto w = matrix(s.out, s.in);
    const auto dy = matrix(s.rows, s.out);
    // The inner product loses up to a third of its speed on wide rows of dx when W comes from memory;
    // elsewhere it is the faster form.
    if (s.in > 2 * s.out)
      return {engine,
              dnnl::matmul({{dy, w, dx}, engine}),
              {{DNNL_ARG_DST, dx}, {DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, w}}};
    return {engine,
            dnnl::inner_product_backward_data({{dx, w, dy}, engine, forward_hint(dx, w, dy)}),
            {{DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}}};
  }

  /// Arguments: dw, dy, x, and db if there is one.
  Product make_backward_weight(const LinearShape& s, bool bias) const {
    const auto x = matrix(s.rows, s.in);
    const auto dw = matrix(s.out, s.in);
    const auto dy = matrix(s.rows, s.out);
    const auto db = row(s.out);
    using Backward = dnnl::inner_product_backward_weights;
    const Backward::desc desc = bias ? Backward::desc(x, dw, db, dy) : Backward::desc(x, dw, dy);
    std::vector<Argument> arguments{{DNNL_ARG_DIFF_WEIGHTS, dw}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_SRC, x}};
    if (bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, db});
    return {engine, Backward({desc, engine, forward_hint(x, dw, dy)}), arguments};
  }

  float* scratch_of(int64_t floats) {
    const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
    if (scratch.bytes() < bytes) scratch = Buffer(*allocator, bytes);
    return static_cast<float*>(scratch.data());
  }

  Allocator* allocator;
  int threads;
  dnnl::engine engine;
  dnnl::stream stream;
  std::map<Key, Product> products;
  Buffer scratch;  ///< a gradient on its way to being added
};

namespace {

/// oneDNN takes its threads from OpenMP's setting, and reports errors by exceptions of its own.
template <class Work>
void guarded(int threads, const Work& work) {
  omp_set_num_threads(threads);
  try {
    work();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("oneDNN failed ({}): {}", static_cast<int>(error.status), error.what()));
  }
}

}  // namespace

MatrixProducts::MatrixProducts(Allocator& allocator, int threads) {
  guarded(threads, [&] { impl_ = std::make_unique<Impl>(allocator, threads); });
}
MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::forward(float* y, const float* x, const float* w, const float* b,
                             const LinearShape& shape) {
  guarded(impl_->threads, [&] {
    impl_->find({Kind::forward, b != nullptr, shape}).run(impl_->stream, {y, x, w, b});
  });
}

void MatrixProducts::backward_input(float* dx, const float* dy, const float* w, const LinearShape& shape) {
  guarded(impl_->threads, [&] {
    impl_->find({Kind::backward_input, false, shape}).run(impl_->stream, {dx, dy, w});
  });
}

void MatrixProducts::backward_weight(float* dw, float* db, const float* dy, const float* x,
                                     const LinearShape& shape, Write write) {
  const int64_t weights = shape.out * shape.in;
  const bool accumulate = write == Write::accumulate;
  float* dw_written = accumulate ? impl_->scratch_of(weights + shape.out) : dw;
  float* db_written = accumulate ? dw_written + weights : db;
  guarded(impl_->threads, [&] {
    Product& product = impl_->find({Kind::backward_weight, db != nullptr, shape});
    product.run(impl_->stream, {dw_written, dy, x, db_written});
  });
  if (!accumulate) return;
  parallel_ranges(impl_->threads, weights, elementwise_grain, [&](Range range, int) {
    add_to(dw + range.begin, dw_written + range.begin, range.size());
  });
  if (db != nullptr) add_to(db, db_written, shape.out);
}

}  // namespace gpt
