/* Allocations of metered code are charged to its task (F-13). rota_meter() in CMake includes this file first in every
 * file of a metered target: the allocation functions keep their names and types there, and are linked under others,
 * which charge and then allocate as usual. Blocks are ordinary blocks: it does not matter whether the code that frees
 * them is metered. C and C++. docs/metering.md says what is not charged. */
#ifndef ROTA_FIBER_DETAIL_METERED_MEMORY_H
#define ROTA_FIBER_DETAIL_METERED_MEMORY_H

#if defined(ROTA_METERED) && ROTA_METERED

#include <stddef.h>

#ifdef __cplusplus
#include <new>
extern "C" {
#define ROTA_NOTHROW noexcept
#else
#define ROTA_NOTHROW
#endif

void* malloc(size_t) ROTA_NOTHROW __asm__("rota_metered_malloc");
void* calloc(size_t, size_t) ROTA_NOTHROW __asm__("rota_metered_calloc");
void* realloc(void*, size_t) ROTA_NOTHROW __asm__("rota_metered_realloc");
void free(void*) ROTA_NOTHROW __asm__("rota_metered_free");
void* aligned_alloc(size_t, size_t) ROTA_NOTHROW __asm__("rota_metered_aligned_alloc");
int posix_memalign(void**, size_t, size_t) ROTA_NOTHROW __asm__("rota_metered_posix_memalign");
void* memalign(size_t, size_t) ROTA_NOTHROW __asm__("rota_metered_aligned_alloc");
void* valloc(size_t) ROTA_NOTHROW __asm__("rota_metered_valloc");
void* pvalloc(size_t) ROTA_NOTHROW __asm__("rota_metered_pvalloc");
void* reallocarray(void*, size_t, size_t) ROTA_NOTHROW __asm__("rota_metered_reallocarray");
char* strdup(const char*) ROTA_NOTHROW __asm__("rota_metered_strdup");
char* strndup(const char*, size_t) ROTA_NOTHROW __asm__("rota_metered_strndup");

#undef ROTA_NOTHROW
#ifdef __cplusplus
}  // extern "C"

void* operator new(std::size_t) __asm__("rota_metered_new");
void* operator new[](std::size_t) __asm__("rota_metered_new");
void* operator new(std::size_t, std::align_val_t) __asm__("rota_metered_new_aligned");
void* operator new[](std::size_t, std::align_val_t) __asm__("rota_metered_new_aligned");
void* operator new(std::size_t, const std::nothrow_t&) noexcept __asm__("rota_metered_new_nothrow");
void* operator new[](std::size_t, const std::nothrow_t&) noexcept __asm__("rota_metered_new_nothrow");
void operator delete(void*) noexcept __asm__("rota_metered_delete");
void operator delete[](void*) noexcept __asm__("rota_metered_delete");
void operator delete(void*, std::size_t) noexcept __asm__("rota_metered_delete");
void operator delete[](void*, std::size_t) noexcept __asm__("rota_metered_delete");
void operator delete(void*, std::align_val_t) noexcept __asm__("rota_metered_delete_aligned");
void operator delete[](void*, std::align_val_t) noexcept __asm__("rota_metered_delete_aligned");
void operator delete(void*, std::size_t, std::align_val_t) noexcept __asm__("rota_metered_delete_aligned_sized");
void operator delete[](void*, std::size_t, std::align_val_t) noexcept __asm__("rota_metered_delete_aligned_sized");
#endif

#endif /* ROTA_METERED */

#endif /* ROTA_FIBER_DETAIL_METERED_MEMORY_H */
