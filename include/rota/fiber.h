// The fiber runtime, whole.
#pragma once

#include "rota/fiber/blocking.h"
#include "rota/fiber/both.h"
#include "rota/fiber/budget.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/capability.h"
#include "rota/fiber/config.h"
#include "rota/fiber/error.h"
#include "rota/fiber/file.h"
#include "rota/fiber/io.h"
#include "rota/fiber/meter.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/state.h"
#include "rota/fiber/task.h"
#include "rota/fiber/time.h"
#include "rota/fiber/trace.h"
