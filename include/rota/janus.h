/* The C interface of the fiber runtime (F-30): schedulers, tasks, nurseries, budgets, channels, select and tokens, and
 * one function for each opcode that a compiler generates. C99; also valid C++.
 *
 * Rules:
 *   1. No exception crosses this interface in either direction. Every function that can fail returns an int: JANUS_OK,
 *      or one of the codes below, whose numbers never change. janus_last_error() returns a sentence.
 *   2. A handle is a number, not an address. A handle that is 0, stale, or of another kind gives JANUS_NOT_FOUND.
 *   3. A task is a function `void* f(void* argument)`. It ends by returning. If the task is cancelled, a wait ends
 *      early and returns JANUS_CANCELLED, and so does every later one: return soon. A task that got this code and
 *      returns has ended as cancelled; its result is dropped.
 *   4. Structured concurrency: a task belongs to a nursery, and no task outlives it. Nurseries that a task left open
 *      when it returns are cancelled and waited for. (A task started from C++ must close what it opened here.)
 *   5. Results and channel values are pointers, or integers that fit in one. They are never dereferenced.
 *   6. Unless noted otherwise, a function may be called from any task and from any thread.
 *   7. A pointer to a result may be null where it says "optional"; elsewhere null is JANUS_INVALID_ARGUMENT.
 */
#ifndef ROTA_JANUS_H
#define ROTA_JANUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when the meaning or layout of something here changes. */
#define JANUS_ABI_VERSION 1
/* The version of the library; if it differs from JANUS_ABI_VERSION, the program must not use it. */
uint32_t janus_abi_version(void);

/* ---------------------------------------------------------------------------------------------------------- errors */

/* The numbers of docs/errors.md that this interface returns. */
enum {
  JANUS_OK = 0,
  JANUS_INTERNAL = 1,
  JANUS_INVALID_ARGUMENT = 2,
  JANUS_NOT_FOUND = 3,
  JANUS_CONFLICT = 5,
  JANUS_FAILED_PRECONDITION = 6,
  JANUS_QUEUE_FULL = 8,
  JANUS_TIMEOUT = 9,
  JANUS_DEADLINE_EXCEEDED = 10,
  JANUS_CANCELLED = 11,
  JANUS_CLOSED = 12,
  JANUS_WOULD_BLOCK = 13,
  JANUS_RESOURCE_EXHAUSTED = 18,
  JANUS_UNSUPPORTED = 24,
  JANUS_SPAWN_BUDGET_EXHAUSTED = 100,
  JANUS_MEMORY_BUDGET_EXHAUSTED = 101,
  JANUS_BUDGET_EXHAUSTED = 102,
  JANUS_NURSERY_NOT_ACTIVE = 103,
  JANUS_STACK_OVERFLOW = 104,
  JANUS_WORKER_PANIC = 105,
  JANUS_CAPABILITY_DENIED = 106,
  JANUS_OUTSIDE_RUNTIME = 107,
  JANUS_DEADLOCK = 108
};

/* The name of a code: "Cancelled". Never null; valid forever. "Internal" for a number that is not a code. */
const char* janus_error_name(int code);
/* Copies the message of the last call that failed in this task (outside of tasks: on this thread) into `text`, at most
 * `size` bytes including the final 0; `text` may be null if `size` is 0. Returns the length of the whole message, 0 if
 * no call has failed. Works also if the task has moved to another thread. */
size_t janus_last_error(char* text, size_t size);

/* ----------------------------------------------------------------------------------------------------------- types */

/* How much a task may still use. The largest value of a component means no limit. */
typedef struct JanusBudget {
  uint32_t ops;
  size_t memory; /* Bytes. */
  uint16_t spawn_count;
  uint16_t channel_ops;
  uint16_t syscalls;
} JanusBudget;

typedef enum JanusProfile {
  JANUS_PROFILE_CORE = 0,
  JANUS_PROFILE_OPEN = 1,
  JANUS_PROFILE_SERVICE = 2,
  JANUS_PROFILE_CLUSTER = 3,
  JANUS_PROFILE_SOVEREIGN = 4
} JanusProfile;

/* Start from janus_scheduler_config_default(); a configuration of zeros is refused. */
typedef struct JanusSchedulerConfig {
  uint32_t abi_version; /* JANUS_ABI_VERSION. */
  size_t worker_count;  /* 0: one per core. */
  size_t local_queue_size;
  size_t global_queue_size;
  int enable_stealing; /* 0 or 1. */
  uint32_t spin_count;
  size_t task_stack_size;  /* Bytes. */
  int profile;             /* A JanusProfile. */
  uint32_t yield_interval; /* In ops; 0: the profile's default. */
  int deterministic;       /* 0 or 1. 1: one thread, in an order drawn from the seed. */
  uint64_t deterministic_seed;
} JanusSchedulerConfig;

/* Aliases with the names of the source document; define JANUS_SOURCE_NAMES to get them. */
#ifdef JANUS_SOURCE_NAMES
typedef JanusBudget Budget;
typedef JanusSchedulerConfig SchedulerConfig;
#endif

/* Handles. 0 means none. */
typedef uint64_t JanusTask;
typedef uint64_t JanusNursery;
typedef uint64_t JanusChannel;
typedef uint64_t JanusToken;

/* A task's function, passed as void* in the calls below. */
typedef void* (*JanusFunction)(void* argument);

/* For limits in nanoseconds. A limit of 0 never waits. */
#define JANUS_FOREVER (-(int64_t)1)

/* ------------------------------------------------------------------------------------------------------ schedulers */

/* One thread worker per core, profile `open`. */
JanusSchedulerConfig janus_scheduler_config_default(void);
/* Starts the thread workers. Null if the configuration is wrong (janus_last_error() says why) or no thread can be
 * created. The result is a handle, which must not be dereferenced. */
void* janus_scheduler_create(JanusSchedulerConfig config);
/* Waits until all of its tasks have ended, stops the thread workers and frees the scheduler. Called from one of its
 * tasks, or with a stale handle, it changes nothing and sets janus_last_error(). */
void janus_scheduler_shutdown(void* scheduler);
/* Asks all of its tasks to end. */
int janus_scheduler_cancel(void* scheduler);
/* Runs func(arg) as a task and waits for it; called from outside of tasks. `result` is optional. Returns the task's
 * outcome, like janus_task_join(). */
int janus_scheduler_run(void* scheduler, void* func, void* arg, void** result);
/* Starts func(arg). In a task: in its innermost open nursery, or JANUS_NURSERY_NOT_ACTIVE. Outside: as an independent
 * task of the scheduler that was created last. */
int janus_scheduler_spawn(void* func, void* arg);
/* Starts an independent task on the given scheduler; its failure affects no other task. `task` is optional. */
int janus_scheduler_spawn_on(void* scheduler, void* func, void* arg, JanusTask* task);
/* Lets another ready task run. JANUS_CANCELLED if this one is being cancelled. Outside of tasks: yields the
 * thread's time slice. */
int janus_scheduler_yield(void);
/* Waits. Outside of tasks the thread sleeps. A negative time, JANUS_FOREVER too, is JANUS_INVALID_ARGUMENT. */
int janus_sleep(int64_t nanoseconds);

/* --------------------------------------------------------------------------------------------------------- budgets */

/* The rest of this task's budget; no limits where nothing is metered. */
JanusBudget janus_budget_get_current(void);
/* Takes `amount` from the pool for this task. Needs CapBudget where capabilities are checked. */
int janus_budget_recharge(JanusBudget amount);

/* ----------------------------------------------------------------------------------------------------------- tasks */

/* Waits for the task, stores the result of its function in *result (optional; null unless it returned), and releases
 * the handle. Returns the outcome: JANUS_OK, JANUS_CANCELLED, JANUS_BUDGET_EXHAUSTED, JANUS_STACK_OVERFLOW, or the code
 * of its failure. If the wait itself failed, because the caller is cancelled or another caller waits for the same task
 * (JANUS_CONFLICT), *joined (optional) is 0 and the handle is still valid; otherwise it is 1. */
int janus_task_join(JanusTask task, void** result, int* joined);
/* Releases the handle; the task continues. */
int janus_task_release(JanusTask task);
/* Asks the task to end. No effect if it has ended. */
int janus_task_cancel(JanusTask task);
/* Stores 1 in *done once the task has ended, else 0. */
int janus_task_is_done(JanusTask task, int* done);
/* Makes this task fail when its function returns, and with it its nursery: `code` is not JANUS_OK; `message` is
 * optional. In a task that was started through this interface. */
int janus_task_fail(int code, const char* message);
/* Stores 1 in *cancelled if this task is being cancelled, else 0; outside of tasks 0. */
int janus_task_is_cancelled(int* cancelled);

/* ------------------------------------------------------------------------------------------------------- nurseries */

typedef enum JanusOnExhausted {
  JANUS_EXHAUSTED_DEFAULT = 0,  /* As in the surrounding nursery. */
  JANUS_EXHAUSTED_RECHARGE = 1, /* Takes budget from the pool. */
  JANUS_EXHAUSTED_WAIT = 2,     /* Waits for janus_nursery_recharge(). */
  JANUS_EXHAUSTED_CANCEL = 3
} JanusOnExhausted;

typedef struct JanusNurseryOptions {
  const JanusBudget* pool;          /* Null: the surrounding pool. */
  const JanusBudget* default_child; /* Null: as in the surrounding nursery. */
  int on_exhausted;                 /* A JanusOnExhausted. */
  int64_t deadline;                 /* Nanoseconds from now, or JANUS_FOREVER. */
} JanusNurseryOptions;

/* Opens a nursery inside those that the calling task has open. `options` is optional. */
int janus_nursery_open(const JanusNurseryOptions* options, JanusNursery* nursery);
/* Starts func(arg) in it. Called by the task that opened it, or one below. `budget` and `task` are optional. */
int janus_nursery_spawn(JanusNursery nursery, void* func, void* arg, const JanusBudget* budget, JanusTask* task);
/* Gives `amount` from its pool to a task below it that has run out of budget. Called by the task that opened it, or one
 * below. */
int janus_nursery_recharge(JanusNursery nursery, JanusTask task, JanusBudget amount);
/* Cancels every task in it and below. Called by the task that opened it, or one below. */
int janus_nursery_cancel(JanusNursery nursery);
/* Waits for all of its tasks and releases the handle. Called by the task that opened it, the innermost nursery first
 * (JANUS_FAILED_PRECONDITION otherwise). Returns the code of the first failure, JANUS_DEADLINE_EXCEEDED,
 * JANUS_CANCELLED or JANUS_OK. */
int janus_nursery_close(JanusNursery nursery);

/* -------------------------------------------------------------------------------------------------------- channels */

#define JANUS_UNBOUNDED SIZE_MAX

/* Creates a channel with a buffer of `capacity` values; with 0 a send waits for its receiver. */
int janus_channel_create(size_t capacity, JanusChannel* channel);
/* Releases the handle. Tasks that wait at the channel continue to wait: close it first. */
int janus_channel_release(JanusChannel channel);
/* Waits up to `limit` nanoseconds for room or a receiver: JANUS_CLOSED, JANUS_TIMEOUT, or with limit 0
 * JANUS_WOULD_BLOCK. Waiting needs a task. */
int janus_channel_send(JanusChannel channel, void* value, int64_t limit);
/* Likewise for a value. JANUS_CLOSED: closed and drained. */
int janus_channel_receive(JanusChannel channel, void** value, int64_t limit);
/* Closes the channel. Closing again changes nothing. */
int janus_channel_close(JanusChannel channel);
/* Stores the number of buffered values at this moment. */
int janus_channel_size(JanusChannel channel, size_t* size);

/* ---------------------------------------------------------------------------------------------------------- select */

typedef struct JanusSelectCase {
  JanusChannel channel;
  int send; /* 1: send `value`; 0: receive into it. */
  void* value;
  int status; /* Out, for the performed case: JANUS_OK or JANUS_CLOSED. */
} JanusSelectCase;

#define JANUS_SELECT_MAX 64

/* Performs exactly one of 1 to JANUS_SELECT_MAX cases and stores its index; fair among the possible ones.
 * JANUS_TIMEOUT, or with limit 0 JANUS_WOULD_BLOCK, if none was possible. Needs a task. */
int janus_select(JanusSelectCase* cases, size_t count, int64_t limit, size_t* chosen);

/* ---------------------------------------------------------------------------------------------------------- tokens */

typedef enum JanusCancelReason {
  JANUS_REASON_NONE = 0,
  JANUS_REASON_EXPLICIT = 1,
  JANUS_REASON_TIMEOUT = 2,
  JANUS_REASON_PARENT = 3,
  JANUS_REASON_FAILURE = 4
} JanusCancelReason;

/* Creates a token that is linked to nothing. */
int janus_token_create(JanusToken* token);
/* The token of the calling task: cancelled when the task or a scope around it is. */
int janus_token_current(JanusToken* token);
/* Releases the handle. Linked tokens and registered calls stay as they are. */
int janus_token_release(JanusToken token);
/* Cancels the token. Cancelling again has no effect. */
int janus_token_cancel(JanusToken token);
/* Stores a JanusCancelReason, JANUS_REASON_NONE if it is not cancelled. */
int janus_token_reason(JanusToken token, int* reason);
/* `token` is cancelled when `parent` is, from now on. */
int janus_token_link(JanusToken token, JanusToken parent);
/* Calls func(arg) once when the token is cancelled, on the cancelling thread; at once if it is already cancelled. *id
 * (optional) identifies the call for its removal. */
int janus_token_on_cancel(JanusToken token, void (*func)(void* arg), void* arg, uint64_t* id);
/* Removes a call. JANUS_OK: it will never be made. JANUS_NOT_FOUND: it was made, or there is no such id. */
int janus_token_off_cancel(JanusToken token, uint64_t id);

/* --------------------------------------------------------------------------------------------------------- opcodes */

/* The functions that a compiler generates calls to, one per opcode. */

/* Budget_Check: free while there is budget. A task without budget is exhausted, waits here for a recharge, and then
 * pays one op; a cancelled task gets JANUS_CANCELLED, or JANUS_BUDGET_EXHAUSTED if its budget was the reason. */
int janus_op_budget_check(void);
/* Budget_Decrement: pays `cost` ops, and yields at the end of an interval. Like Budget_Check if there are not that
 * many. */
int janus_op_budget_decrement(uint32_t cost);
/* Yield: as janus_scheduler_yield(). */
int janus_op_yield(void);
/* Task_Create: starts func(arg) with `budget` (optional) in the innermost open nursery of this task; outside, as an
 * independent task of the scheduler that was created last, with that budget. */
int janus_op_task_create(void* func, void* arg, const JanusBudget* budget, JanusTask* task);
/* Task_Join: as janus_task_join(). */
int janus_op_task_join(JanusTask task, void** result);

#ifdef __cplusplus
}
#endif

#endif /* ROTA_JANUS_H */
