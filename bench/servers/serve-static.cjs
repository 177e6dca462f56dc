const app = require('express')()
app.use(require('serve-static')(process.env.ROOT))
app.listen(Number(process.env.PORT), '127.0.0.1')
