package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/control"
	"sluice/internal/sluice"
)

// Auth says who may call. Secrets are read on use, so that rotating one needs no restart; an empty one lets nobody in.
type Auth struct {
	Admin     func() (string, error) // bearer secret with the role admin: it makes the first tokens
	Discovery func() (string, error) // bearer secret with the role discovery
	Rate      float64                // requests a second of each token; 0: no limit
	Burst     int                    // requests at once; 0: twice the rate
}

// caller is who a request comes from.
type caller struct {
	id   string // of the token; the key of limits and repeated requests
	name string // for the audit log
	role control.Role
}

// local is everybody where there is no login: whoever reaches loopback has the machine.
var local = caller{id: "local", name: "local", role: control.RoleAdmin}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c
	}
	return local
}

// door finds out who calls before anything of the request is looked at.
type door struct {
	d     Deps
	bans  control.Bans
	rates rates
}

// open lets requests of /api/v1 in with their caller; the rest is for everybody.
func (o *door) open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.d.Auth == nil || !strings.HasPrefix(r.URL.Path, "/api/") {
			next.ServeHTTP(w, r)
			return
		}
		const doing = "answer a request"
		if wait := o.bans.Banned(r.RemoteAddr); wait > 0 {
			later(w, wait)
			writeError(w, r, http.StatusTooManyRequests, sluice.E("SLUICE-API-RATE", doing, "too many logins from this address have failed", "wait, and check the token", nil))
			return
		}
		c, known, err := o.identify(r)
		switch {
		case err != nil:
			later(w, retryAway)
			writeError(w, r, newError(r.Context(), err).status, err)
		case !known:
			o.bans.Failed(r.RemoteAddr)
			w.Header().Set("WWW-Authenticate", `Bearer realm="sluice"`)
			writeError(w, r, http.StatusUnauthorized, sluice.E("SLUICE-API-LOGIN", doing, "the bearer token is missing, wrong, expired or revoked",
				"send Authorization: Bearer TOKEN; commands take it from SLUICE_TOKEN", nil))
		default:
			if wait := o.rates.take(c.id, o.d.Auth.Rate, o.d.Auth.Burst); wait > 0 {
				later(w, wait)
				writeError(w, r, http.StatusTooManyRequests, sluice.E("SLUICE-API-RATE", doing, "the token has used up its share of requests", "wait, and send more in one call", nil))
				return
			}
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
		}
	})
}

// retryAway is when a caller should come back while the state DB is away.
const retryAway = 2 * time.Second

func later(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second))))
}

// identify finds the caller of a request.
func (o *door) identify(r *http.Request) (caller, bool, error) {
	scheme, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	secret = strings.TrimSpace(secret)
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return caller{}, false, nil
	}
	for _, fixed := range []struct {
		read func() (string, error)
		caller
	}{
		{o.d.Auth.Admin, caller{"admin", "admin secret", control.RoleAdmin}},
		{o.d.Auth.Discovery, caller{"discovery", "discovery secret", control.RoleDiscovery}},
	} {
		if fixed.read == nil {
			continue
		}
		want, err := fixed.read()
		if err != nil {
			return caller{}, false, sluice.E("SLUICE-CONFIG", "read the "+fixed.name, "", "see sluice config show", err)
		}
		if want != "" && equal(secret, want) {
			return fixed.caller, true, nil
		}
	}
	if !strings.HasPrefix(secret, control.TokenPrefix) {
		return caller{}, false, nil
	}
	t, known, err := o.d.Control.LookupToken(r.Context(), secret)
	return caller{t.TokenID, t.Name + " (" + t.TokenID + ")", t.Role}, known, err
}

// equal compares in a time that tells nothing, not even the length.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// rates are token buckets, one for each caller.
type rates struct {
	mu      sync.Mutex
	buckets map[string]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// take uses one request up, or tells how long to wait for it.
func (r *rates) take(id string, rate float64, burst int) time.Duration {
	if rate <= 0 {
		return 0
	}
	most := float64(burst)
	if burst <= 0 {
		most = max(1, 2*rate)
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buckets == nil {
		r.buckets = map[string]*bucket{}
	}
	b := r.buckets[id]
	if b == nil {
		for other, o := range r.buckets { // a bucket that is full again is as good as none
			if o.left+now.Sub(o.at).Seconds()*rate >= most {
				delete(r.buckets, other)
			}
		}
		b = &bucket{left: most, at: now}
		r.buckets[id] = b
	}
	b.left = min(most, b.left+now.Sub(b.at).Seconds()*rate)
	b.at = now
	if b.left >= 1 {
		b.left--
		return 0
	}
	return time.Duration((1 - b.left) / rate * float64(time.Second))
}

// roleOf says which role an operation needs: reading needs a viewer, the work of the day an operator, and what is listed
// here somebody else.
func roleOf(method, operation string) control.Role {
	if role, listed := roles[operation]; listed {
		return role
	}
	if method == http.MethodGet {
		return control.RoleViewer
	}
	return control.RoleOperator
}

var roles = map[string]control.Role{
	"get-warehouses": control.RoleDiscovery, "get-warehouse-team-ids": control.RoleDiscovery,

	"create-org": control.RoleAdmin, "update-org": control.RoleAdmin, "delete-org": control.RoleAdmin, "set-org-policy": control.RoleAdmin,
	"set-org-limits": control.RoleAdmin,
	"create-team":    control.RoleAdmin, "update-team": control.RoleAdmin, "delete-team": control.RoleAdmin, "transfer-team": control.RoleAdmin,
	"create-user": control.RoleAdmin, "update-user": control.RoleAdmin, "delete-user": control.RoleAdmin, "reset-user-password": control.RoleAdmin,
	"list-service-credentials": control.RoleAdmin, "mint-service-credential": control.RoleAdmin, "refresh-service-credential": control.RoleAdmin,
	"revoke-service-credential": control.RoleAdmin,
	"list-tokens":               control.RoleAdmin, "create-token": control.RoleAdmin, "revoke-token": control.RoleAdmin,
}

// guard refuses callers whose role is not enough, before the request's body is read.
func guard(api huma.API, needed control.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if callerOf(ctx.Context()).role.May(needed) {
			next(ctx)
			return
		}
		e := newError(ctx.Context(), sluice.E("SLUICE-API-ROLE", "answer a request", fmt.Sprintf("this needs the role %s", needed),
			"use a token with that role; an admin makes one with sluice token create", nil))
		_ = huma.WriteErr(api, ctx, e.status, "", e) // the client may be gone
	}
}
