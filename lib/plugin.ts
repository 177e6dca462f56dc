import { replyDecorators } from './decorators'
import { INVALID_OPTION } from './errors'
import { Mount } from './mount'
import { readOptions } from './options'
import { resolvePath } from './resolve-path'
import { refuse } from './respond'
import { kHead, onClose, refuseWith, withdrawHead } from './send'
import { joinCache } from './shared-cache'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Settings } from './options'
import type { Rejection, Target } from './resolve-path'
import type { Search, Selection } from './select'
import type { CacheUse } from './shared-cache'
import type { CachedStaticOptions } from '../types/index'

/** What the `onRequest` hook leaves for the handler. */
type Consultation =
  | { readonly rejection: Rejection }
  | { readonly search: Search, readonly selection: Selection }

const kConsultation = Symbol('fastify-cached-static.consultation')

type ConsultedRequest = FastifyRequest & { [kConsultation]: Consultation | null }

export async function plugin (fastify: FastifyInstance, options: CachedStaticOptions): Promise<void> {
  const settings = readOptions(options)
  const use = joinCache(fastify, settings.openFileCache)
  fastify.addHook('onClose', use.leave)
  await checkRoot(fastify, settings, use)

  const mount = new Mount(settings, use.cache, use.policy)
  if (use.isPublic && !fastify.hasDecorator('openFileCache')) fastify.decorate('openFileCache', use.cache)
  if (!fastify.hasReplyDecorator(kHead)) fastify.decorateReply(kHead, null)
  // `setHeaders` may throw, an `onSend` hook fail, or hold back a body that cannot be read to its end.
  fastify.addHook('onError', (_request, reply, _error, done) => {
    withdrawHead(reply)
    done()
  })
  if (settings.decorateReply) {
    const { sendFile, download } = replyDecorators(mount, { ...options })
    fastify.decorateReply('sendFile', sendFile)
    fastify.decorateReply('download', download)
  }
  if (!settings.serve) return
  await checkFallback(fastify, mount, use)
  addRoute(fastify, mount, settings.send.root as string)
}

/** A root that is missing may appear later; one that is no directory will not become one. */
async function checkRoot (fastify: FastifyInstance, { send: { root } }: Settings, { cache, policy }: CacheUse): Promise<void> {
  if (root === undefined) return
  const answer = await cache.open(root, policy, false)
  cache.invalidate(root)
  if (answer.kind !== 'negative') {
    answer.release()
    if (answer.snapshot.kind !== 'directory') throw new INVALID_OPTION('root', `must be a directory, but ${root} is a file`)
  } else if (answer.errno === 'ENOENT') {
    fastify.log.warn(`"root" path "${root}" must exist`)
  } else {
    throw new INVALID_OPTION('root', `must be a directory, but ${root} cannot be opened (${answer.errno})`)
  }
}

async function checkFallback (fastify: FastifyInstance, { fallback }: Mount, { cache, policy }: CacheUse): Promise<void> {
  if (fallback === undefined) return
  const answer = await cache.open(fallback, policy, false)
  cache.invalidate(fallback)
  if (answer.kind !== 'negative') answer.release()
  if (answer.kind !== 'file') fastify.log.warn(`"fallback" file "${fallback}" must exist`)
}

function addRoute (fastify: FastifyInstance, mount: Mount, root: string): void {
  const { settings } = mount
  const { send, prefix } = settings
  const { useSemicolonDelimiter, routerOptions } = fastify.initialConfig as RouterConfig
  const cutsAtSemicolon = routerOptions?.useSemicolonDelimiter ?? useSemicolonDelimiter

  if (!fastify.hasRequestDecorator(kConsultation)) fastify.decorateRequest(kConsultation, null)

  fastify.route({
    method: ['GET', 'HEAD'],
    url: prefix + '*',
    exposeHeadRoute: false,
    schema: { hide: true } as object,

    onRequest (request, reply, done) {
      const params = request.params as Record<string, string>
      const target = climbs(params)
        ? 'forbidden'
        : resolvePath(params['*'] as string, request.raw.url as string, root, send.dotfiles, cutsAtSemicolon)
      if (typeof target === 'string') {
        consulted(request, { rejection: target })
        return done()
      }
      const search = mount.search(target, request, send, fallsBack(target, request))
      const selection = mount.select(search)
      if (!(selection instanceof Promise)) {
        consulted(request, { search, selection })
        return done()
      }
      // It never rejects: errors are sent by the handler, after the hooks of this route.
      selection.then((selection) => {
        consulted(request, { search, selection })
        if (selection.kind === 'found' && selection.lease !== undefined) {
          const { lease } = selection
          onClose(reply, () => lease.release())
        }
        done()
      })
    },

    handler (request, reply) {
      const consultation = (request as ConsultedRequest)[kConsultation] as Consultation
      if ('rejection' in consultation) return refuseWith(reply, refuse(consultation.rejection))
      const { search, selection } = consultation
      mount.transmit({ request, reply, search, send, disposition: undefined }, selection)
    }
  })
}

interface RouterConfig {
  readonly useSemicolonDelimiter: boolean
  readonly routerOptions?: { readonly useSemicolonDelimiter?: boolean }
}

function consulted (request: FastifyRequest, consultation: Consultation): void {
  (request as ConsultedRequest)[kConsultation] = consultation
}

/** A dot segment that a parameter of the prefix has taken, as in `/app/:version/` and `/app/../x`. */
function climbs (params: Record<string, string>): boolean {
  for (const name in params) {
    if (name !== '*' && (params[name] === '..' || params[name] === '.')) return true
  }
  return false
}

/** A page of the application, not one of its assets, and asked for by a browser that navigates. */
function fallsBack ({ pathname }: Target, request: FastifyRequest): boolean {
  if (pathname.includes('.', pathname.lastIndexOf('/'))) return false
  return /(?:^|,)[\t ]*text\/html[\t ]*(?:,|$|;(?!(?:[^,]*;)?[\t ]*q=0(?:\.0*)?[\t ]*(?:[,;]|$)))/i.test(request.headers.accept ?? '')
}
