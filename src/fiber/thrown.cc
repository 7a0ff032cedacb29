// The destructor of an exception that a task with capabilities has thrown runs where the last handler ends, which is in
// another task; it keeps the capabilities of the task that threw it (F-14). Its type is known to nobody but that task,
// so this is done in the object's header, which the C++ runtime asks for the destructor: the header gets ours, which
// looks up the object's own one, and the capabilities, in a table.
//
// The table has an entry for each such object that exists. Thread safety: everything may be called from any thread.
#include <cxxabi.h>
#include <unwind.h>

#include <cstring>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "fiber/meter_core.h"
#include "rota/fiber/error.h"

namespace rota::fiber::detail {

namespace {

// In front of a thrown object (Itanium C++ ABI, as libstdc++ has it).
struct ThrownHeader {
  const std::type_info* type;
  void (*destructor)(void* object);
  void (*unexpected_handler)();
  void (*terminate_handler)();
  void* next;
  int handler_count;
  int handler_switch;
  const unsigned char* action_record;
  const unsigned char* language_data;
  std::uintptr_t catch_temp;
  void* adjusted;
  _Unwind_Exception unwind;
};

struct Thrown {
  void (*destructor)(void* object);
  CapContext* rights;  // A reference.
};

struct Table {
  SpinLock lock;
  std::unordered_map<void*, Thrown> objects;
};

Table& table() {
  static auto* it = new Table;  // Never destroyed: an exception may live until the process ends.
  return *it;
}

void destroy_thrown(void* object) {
  Thrown thrown{};
  {
    const std::lock_guard guard(table().lock);
    const auto at = table().objects.find(object);
    thrown = at->second;
    table().objects.erase(at);
  }
  try {
    const ActingFor acting(nullptr, thrown.rights);
    thrown.destructor(object);
  } catch (const std::bad_alloc&) {  // Without memory to act for that task its code does not run: the object is lost.
  }
  drop_reference(thrown.rights);
}

}  // namespace

void keep_rights(const std::exception_ptr& error, CapContext* rights) noexcept {
#if defined(__GLIBCXX__)
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return;  // Of another language.
  for (const std::type_info* ours : {&typeid(Cancelled), &typeid(BudgetExhausted), &typeid(FiberError)}) {
    if (*type == *ours) return;  // No user code.
  }
  void* object = nullptr;
  static_assert(sizeof(error) == sizeof(object));
  std::memcpy(&object, &error, sizeof object);
  ThrownHeader* header = static_cast<ThrownHeader*>(object) - 1;
  if (*header->type != *type || header->destructor == nullptr || header->destructor == &destroy_thrown) return;
  try {
    const std::lock_guard guard(table().lock);
    table().objects.emplace(object, Thrown{header->destructor, rights});
  } catch (const std::bad_alloc&) {  // The object is not destroyed at all: one reference to it is never dropped.
    alignas(std::exception_ptr) std::byte forever[sizeof(std::exception_ptr)];
    ::new (static_cast<void*>(forever)) std::exception_ptr(error);
    return;
  }
  add_reference(rights);
  header->destructor = &destroy_thrown;
#else
  (void)error, (void)rights;
#endif
}

}  // namespace rota::fiber::detail
