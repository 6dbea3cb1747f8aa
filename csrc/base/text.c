#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static bool text_room(Text *t, size_t more)
{
    if (t->cap - t->len > more)
        return true;
    size_t cap = 2 * t->cap > t->len + more + 1 ? 2 * t->cap : t->len + more + 64;
    char *at = arena_should_fail() ? NULL : realloc(t->at, cap);
    if (!at) {
        text_free(t);
        t->failed = true;
        return false;
    }
    t->at = at;
    t->cap = cap;
    return true;
}

void text_put(Text *t, const char *fmt, ...)
{
    for (size_t room = 0; !t->failed;) {
        if (!text_room(t, room))
            return;
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(t->at + t->len, t->cap - t->len, fmt, ap);
        va_end(ap);
        if (n < 0)
            return;
        if ((size_t)n < t->cap - t->len) {
            t->len += (size_t)n;
            return;
        }
        room = (size_t)n;
    }
}

double text_double(const char *s, char **end)
{
    char buffer[64];
    const char *point = localeconv()->decimal_point;
    size_t n = strspn(s, "+-.0123456789abcdefinptxABCDEFINPTX"), before = strcspn(s, "."), wide = strlen(point);
    if (before >= n || wide + n >= sizeof buffer || !strcmp(point, "."))
        return strtod(s, end);
    memcpy(buffer, s, before);
    memcpy(buffer + before, point, wide);
    memcpy(buffer + before + wide, s + before + 1, n - before - 1);
    buffer[n - 1 + wide] = 0;
    char *stop;
    double x = strtod(buffer, &stop);
    size_t read = (size_t)(stop - buffer);
    *end = (char *)s + (read > before ? read - wide + 1 : read);
    return x;
}

void text_put_double(Text *t, double x, bool single)
{
    char buffer[64], *end;
    const char *point = localeconv()->decimal_point;
    if (isnan(x) || isinf(x)) {
        text_put(t, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buffer, sizeof buffer, "%.*g", digits, x);
        double back = strtod(buffer, &end);
        if (single ? (float)back == (float)x : back == x)
            break;
    }
    char *at = strstr(buffer, point);
    if (at && strcmp(point, ".")) {
        *at = '.';
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
    }
    text_put(t, "%s", buffer);
}

void text_free(Text *t)
{
    free(t->at);
    *t = (Text){ 0 };
}
